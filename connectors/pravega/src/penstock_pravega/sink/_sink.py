"""The Pravega sinks: one that delivers at least once (or tries to), one that commits."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.serialization import JsonSerializer
from penstock.serialization.formats import RecordEncoder
from penstock.sink import (
    Committer,
    CommittingSinkWriter,
    Sink,
    SinkContext,
    SinkWriter,
    TwoPhaseCommitSink,
    WriterContext,
)
from penstock_pravega.options import SinkOptions
from penstock_pravega.protocol import Controller, SegmentStores, controller_of
from penstock_pravega.sink._committable import COMMITTABLE_SERIALIZER, PravegaCommittable
from penstock_pravega.sink._committer import PravegaCommitter
from penstock_pravega.sink._leases import lease_keeper
from penstock_pravega.sink._notes import TransactionNotes
from penstock_pravega.sink._rows import EventColumns, check_schema
from penstock_pravega.sink._writers import DeliveringWriter, TransactionalWriter

__all__ = ["ExactlyOncePravegaSink", "PravegaSink", "create_sink"]

#: Tried from the longest on: a server does not say what it allows.
_LEASES_MS = (600_000, 300_000, 120_000, 60_000, 30_000, 10_000)


@dataclass(frozen=True)
class PravegaSink(Sink):
    """Delivery best-effort and at-least-once."""

    options: SinkOptions
    encoder: RecordEncoder | None

    def validate_schema(self, schema: pa.Schema) -> None:
        """See the contract."""
        check_schema(schema, self.options)

    def start(self, context: SinkContext) -> PravegaSink:
        """See the contract: the stream is there, or is made if that was asked for."""
        _prepare_stream(self.options)
        return self

    def create_writer(self, context: WriterContext) -> SinkWriter:
        """See the contract."""
        return DeliveringWriter(context, EventColumns(self.options, self.encoder), self.options)


@dataclass(frozen=True)
class ExactlyOncePravegaSink(TwoPhaseCommitSink[PravegaCommittable, Any]):
    """Delivery exactly-once. ``lease_ms`` is how long a transaction outlives its keepers; known once it was started."""

    options: SinkOptions
    encoder: RecordEncoder | None
    lease_ms: int = 0

    @property
    def committable_serializer(self) -> JsonSerializer[PravegaCommittable]:
        """See the contract."""
        return COMMITTABLE_SERIALIZER

    @property
    def target(self) -> str:
        """See the contract."""
        return self.options.stream

    def validate_schema(self, schema: pa.Schema) -> None:
        """See the contract."""
        check_schema(schema, self.options)

    def start(self, context: SinkContext) -> ExactlyOncePravegaSink:
        """See the contract: asks the controller how long a lease may be, once in a process; from now on
        the driver too keeps the query's transactions open.
        """
        lease_ms = self.lease_ms or _allowed_lease(_prepare_stream(self.options), self.options)
        if context.checkpoint is not None:
            notes = TransactionNotes(context.checkpoint, context.query_id)
            lease_keeper().watch(context.query_id, self.options.connection, notes.read, lease_ms)
        return replace(self, lease_ms=lease_ms)

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[PravegaCommittable, Any]:
        """See the contract."""
        return TransactionalWriter(context, EventColumns(self.options, self.encoder), self.options, self.lease_ms)

    def create_committer(self, context: SinkContext) -> Committer[PravegaCommittable, Any]:
        """See the contract."""
        notes = None if context.checkpoint is None else TransactionNotes(context.checkpoint, context.query_id)
        return PravegaCommitter(
            SegmentStores(self.options.connection),
            notes,
            context.metrics,
            writer=f"penstock-{context.query_id}",
            out_of_orderness_ms=self.options.out_of_orderness_ms,
        )

    def describe_committable(self, committable: PravegaCommittable) -> str:
        """See the contract."""
        return committable.describe()


_leases: dict[tuple[int, str, int | None], int] = {}
_prepared: set[tuple[int, str, str, bool]] = set()


def _prepare_stream(options: SinkOptions) -> Controller:
    """Makes scope and stream if that was asked for; looked at once in a process."""
    controller = controller_of(options.connection)
    key = (os.getpid(), options.connection.uri, options.stream, options.framed)
    if key in _prepared:
        return controller
    scope, _, stream = options.stream.partition("/")
    if options.create is not None:
        controller.create_scope(scope)
        controller.create_stream(scope, stream, policy=options.create)
    elif not controller.stream_exists(scope, stream):
        raise BadConfigurationError(
            f"option 'stream': there is no {options.stream} at {options.connection.uri}. Make it, or set create=true"
        )
    if not options.framed and len(controller.current_segments(scope, stream)) != 1:
        raise BadConfigurationError(
            f"option 'framing': {options.stream} has not exactly one segment, so its bytes would have no order"
        )
    _prepared.add(key)
    return controller


def _allowed_lease(controller: Controller, options: SinkOptions) -> int:
    key = (os.getpid(), options.connection.uri, options.lease_ms)
    if key not in _leases:
        scope, _, stream = options.stream.partition("/")
        wanted = _LEASES_MS if options.lease_ms is None else (options.lease_ms,)
        allowed = next((lease for lease in wanted if controller.lease_is_allowed(scope, stream, lease)), None)
        if allowed is None:
            raise BadConfigurationError(
                f"option 'transactionLease': the server refuses transactions of {min(wanted)} ms on {options.stream}. "
                "It allows 10 s to 10 min unless it is set otherwise; leave the option out for the longest"
            )
        _leases[key] = allowed
    return _leases[key]


def create_sink(options: SinkOptions, schema: pa.Schema) -> PravegaSink | ExactlyOncePravegaSink:
    """The sink of ``options`` for rows of ``schema``. Driver.

    Raises BadConfigurationError, and RetriableError if a schema registry does not answer.
    """
    encoder = options.format.create_encoder(schema)
    if options.delivery == "exactly-once":
        return ExactlyOncePravegaSink(options, encoder)
    return PravegaSink(options, encoder)
