"""Lines from a socket, and to one."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.connector import Capability, Connector
from penstock.errors import RetriableError
from penstock.options import Option, OptionSet, OptionValues
from penstock.serialization import JsonSerializer
from penstock.sink import Sink, SinkWriter, WriterContext
from penstock.source import (
    EnumeratorContext,
    ReaderContext,
    ReadLimits,
    RecordEmitter,
    RecordsBySplits,
    Source,
    SplitEnumerator,
    SplitReader,
)

_TIMEOUT_S = 30.0
_POLL_MS = 20
#: Received and not planned yet: then the server has to wait.
_MOST_WAITING = 100_000


def connect(host: str, port: int) -> socket.socket:
    """Raises RetriableError if nobody listens."""
    try:
        return socket.create_connection((host, port), _TIMEOUT_S)
    except OSError as error:
        raise RetriableError(f"nobody listens at {host}:{port} ({error})") from error


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReceivedLines:
    """The lines themselves: nobody else has them any more. ``number`` counts the splits of a query."""

    number: int
    lines: tuple[str, ...]

    @property
    def split_id(self) -> str:
        return str(self.number)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.lines))

    @property
    def group(self) -> str:
        return self.split_id


class SocketEnumerator(SplitEnumerator[ReceivedLines, int]):
    """Receives in a background call, and makes a split of what has come since the last batch."""

    def __init__(self, context: EnumeratorContext, host: str, port: int, number: int) -> None:
        self._context = context
        self._address = (host, port)
        self._number = number
        self._connection: socket.socket | None = None
        self._is_full = threading.Event()
        self._rest = b""
        self._waiting: list[str] = []
        self._back: list[ReceivedLines] = []

    def start(self) -> None:
        self._connection = connection = connect(*self._address)
        connection.settimeout(0.01)
        is_full = self._is_full
        # Runs in another thread, and so must not touch the enumerator itself.
        self._context.call_async(lambda: receive(connection, is_full), self._received, interval_ms=_POLL_MS)

    def _received(self, data: bytes | None, error: BaseException | None) -> None:
        """Coordinator thread. What comes after the last line's end waits for the rest of it."""
        *lines, self._rest = (self._rest + (data or b"")).split(b"\n")
        self._waiting += [line.decode("utf-8", "replace") for line in lines]
        if len(self._waiting) > _MOST_WAITING:
            self._is_full.set()

    def handle_split_request(self) -> ReceivedLines | None:
        if self._back:
            return self._back.pop(0)
        if not self._waiting:
            return None
        split = ReceivedLines(self._number, tuple(self._waiting))
        self._number += 1
        self._waiting = []
        self._is_full.clear()
        return split

    def take_batch(self, limits: ReadLimits) -> list[ReceivedLines]:
        split = self.handle_split_request()
        return [split] if split is not None else []

    def add_splits_back(self, splits: Sequence[ReceivedLines]) -> None:
        self._back = [*splits, *self._back]

    def snapshot_state(self) -> int:
        return self._number

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def receive(connection: socket.socket, is_full: threading.Event) -> bytes:
    """What is there, up to 1 MiB; nothing while enough is waiting."""
    received = b""
    while not is_full.is_set() and len(received) < 1 << 20:
        try:
            part = connection.recv(1 << 16)
        except OSError:  # nothing more now, or closed
            break
        if not part:
            break
        received += part
    return received


class LinesReader(SplitReader[tuple[str, ...], ReceivedLines]):
    def __init__(self) -> None:
        self._splits: list[ReceivedLines] = []

    def handle_splits_changes(self, splits: Sequence[ReceivedLines]) -> None:
        self._splits += splits

    def fetch(self) -> RecordsBySplits[tuple[str, ...]]:
        split = self._splits.pop(0)
        return RecordsBySplits([(split.split_id, split.lines)], [split.split_id])

    def wake_up(self) -> None:
        """A fetch never waits."""

    def close(self) -> None:
        """Nothing is open."""


class LinesEmitter(RecordEmitter[tuple[str, ...], ReceivedLines]):
    def emit_record(self, element: tuple[str, ...], split_state: Any) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": pa.array(element, pa.string())})


@dataclass(frozen=True)
class SocketSource(Source[ReceivedLines, int]):
    host: str
    port: int
    split_serializer = JsonSerializer(
        1, lambda s: [s.number, list(s.lines)], lambda version, fields: ReceivedLines(fields[0], tuple(fields[1]))
    )
    enumerator_serializer = JsonSerializer(1, lambda number: number, lambda version, fields: int(fields))

    def fixed_schema(self) -> pa.Schema:
        return pa.schema([("value", pa.string())])

    def create_enumerator(self, context: EnumeratorContext, checkpoint: int | None) -> SocketEnumerator:
        return SocketEnumerator(context, self.host, self.port, checkpoint or 0)

    def create_reader(self, context: ReaderContext) -> LinesReader:
        return LinesReader()

    def create_emitter(self, context: ReaderContext) -> LinesEmitter:
        return LinesEmitter()


# --- writing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SocketSink(Sink):
    host: str
    port: int

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return SocketWriter(self, context)


class SocketWriter(SinkWriter):
    """A connection for each task with rows. The server says nothing: what was sent counts as written."""

    def __init__(self, sink: SocketSink, context: WriterContext) -> None:
        self._sink = sink
        self._context = context
        self._connection: socket.socket | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if self._connection is None:
            self._connection = connect(self._sink.host, self._sink.port)
        try:
            # Row by row through a small buffer: all lines of a batch would be in memory several times over.
            with self._connection.makefile("wb") as lines:
                for row in batch.to_pylist():
                    lines.write(json.dumps(row, default=str, ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            raise RetriableError(f"the connection to {self._sink.host}:{self._sink.port} broke ({error})") from error
        self._context.metrics.add("rows_written", batch.num_rows)

    def flush(self) -> None:
        if self._connection is not None:
            self._connection.shutdown(socket.SHUT_WR)
            while self._connection.recv(1024):  # until the server has read everything, and closes as well
                continue

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class SocketConnector(Connector):
    summary = "lines from a socket, rows to one"
    source_options = OptionSet(
        [Option("host", "Where a server listens", required=True), Option("port", "Its port", kind="int", required=True)]
    )
    sink_options = source_options
    capabilities = frozenset(
        {Capability.STREAM_READ, Capability.STREAM_WRITE, Capability.DISCOVERY, Capability.RESCALING}
    )

    def create_source(self, options: OptionValues) -> SocketSource:
        return SocketSource(options["host"], options["port"])

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> SocketSink:
        return SocketSink(options["host"], options["port"])

    def describe_guarantee(self) -> str:
        return "source: none for what was not planned yet; sink: at least once"
