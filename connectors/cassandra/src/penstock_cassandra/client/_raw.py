"""Result pages and batches as bytes: the driver moves them, NumPy and Arrow read and make them.

The driver's documented place for that is a protocol handler. It is used for the sessions of :class:`Client` alone; the
driver's own queries (topology, schema) go another way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from cassandra.policies import FallthroughRetryPolicy
from cassandra.protocol import (
    BatchMessage,
    ProtocolHandler,
    ResultMessage,
    read_int,
    write_byte,
    write_consistency_level,
    write_int,
    write_long,
    write_short,
)
from cassandra.query import BatchStatement, BatchType

__all__ = ["RawHandler", "RawRows", "RowsBatch"]

_SERIAL, _TIMESTAMP = 0x10, 0x20


@dataclass(frozen=True)
class RawRows:
    """The rows of a page as they came: ``count`` times the cells of the columns that ``columns`` names and types."""

    columns: Any
    count: int
    body: bytes


class _RawResult(ResultMessage):  # type: ignore[misc]
    def recv_results_rows(
        self, f: Any, protocol_version: int, user_type_map: Any, result_metadata: Any, column_encryption_policy: Any
    ) -> None:
        self.recv_results_metadata(f, user_type_map)
        columns = self.column_metadata or result_metadata
        self.column_names = [column[2] for column in columns]
        self.column_types = [column[3] for column in columns]
        count = read_int(f)
        self.parsed_rows = RawRows(columns, count, f.read())


@dataclass(frozen=True)
class _Statements:
    """Stands where the driver's batch keeps its statements."""

    count: int
    body: bytes
    timestamp_us: int | None

    def __len__(self) -> int:
        return self.count


class RowsBatch(BatchStatement):  # type: ignore[misc]
    """An unlogged batch (or one of counters) whose statements are bytes: each a prepared id and its values."""

    def __init__(
        self, count: int, body: bytes, timestamp_us: int | None, routing_key: bytes | None, *, counters: bool = False
    ) -> None:
        # Repeating is the caller's: it knows what may be repeated, and for how long.
        super().__init__(BatchType.COUNTER if counters else BatchType.UNLOGGED, retry_policy=FallthroughRetryPolicy())
        self._statements_and_parameters = _Statements(count, body, timestamp_us)
        self._raw_routing_key = routing_key

    @property
    def routing_key(self) -> bytes | None:
        """Of the first row: all of them have the same replicas."""
        return self._raw_routing_key


class _RawBatchMessage(BatchMessage):  # type: ignore[misc]
    def send_body(self, f: Any, protocol_version: int, protocol_features: Any = None) -> None:
        statements: _Statements = self.queries
        write_byte(f, self.batch_type.value)
        write_short(f, statements.count)
        f.write(statements.body)
        write_consistency_level(f, self.consistency_level)
        flags = _TIMESTAMP if statements.timestamp_us is not None else 0
        flags |= _SERIAL if self.serial_consistency_level else 0
        (write_int if protocol_version >= 5 else write_byte)(f, flags)
        if self.serial_consistency_level:
            write_consistency_level(f, self.serial_consistency_level)
        if statements.timestamp_us is not None:
            write_long(f, statements.timestamp_us)


class RawHandler(ProtocolHandler):  # type: ignore[misc]
    """See the module."""

    message_types_by_opcode: ClassVar[dict[int, Any]] = {
        **ProtocolHandler.message_types_by_opcode,
        ResultMessage.opcode: _RawResult,
    }

    @classmethod
    def encode_message(cls, msg: Any, *how: Any, **named: Any) -> bytes:
        """Encodes as the driver does, except for batches that are bytes already.

        How it is encoded is up to the driver: ScyllaDB's says more than Cassandra's.
        """
        if isinstance(msg, BatchMessage) and isinstance(msg.queries, _Statements):
            raw = _RawBatchMessage(msg.batch_type, msg.queries, msg.consistency_level, msg.serial_consistency_level)
            raw.tracing, raw.custom_payload = msg.tracing, msg.custom_payload
            msg = raw
        encoded: bytes = ProtocolHandler.encode_message(msg, *how, **named)
        return encoded
