"""The Pravega sinks: one that delivers at least once (or tries to), one that commits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.per_process import PerProcess
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
from penstock_pravega.client import Controller, ControllerSettings, SegmentStores, controller_of
from penstock_pravega.options import SinkOptions
from penstock_pravega.sink._committable import COMMITTABLE_SERIALIZER, PravegaCommittable
from penstock_pravega.sink._committer import PravegaCommitter
from penstock_pravega.sink._leases import lease_keeper
from penstock_pravega.sink._rows import EventColumns, check_schema
from penstock_pravega.sink._transaction_log import TransactionLog
from penstock_pravega.sink._writer import PravegaAtLeastOnceWriter, PravegaTransactionalWriter

__all__ = ["PravegaTransactionalSink", "PravegaAtLeastOnceSink", "create_sink"]

#: Tried from the longest on: a server does not say what it allows.
_LEASES_MS = (600_000, 300_000, 120_000, 60_000, 30_000, 10_000)


@dataclass(frozen=True)
class PravegaAtLeastOnceSink(Sink):
    """Delivery best-effort and at-least-once."""

    options: SinkOptions
    encoder: RecordEncoder | None

    def validate_schema(self, schema: pa.Schema) -> None:
        check_schema(schema, self.options)

    def start(self, context: SinkContext) -> PravegaAtLeastOnceSink:
        """The stream is there, or is made if that was asked for."""
        _prepare_stream(self.options)
        return self

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return PravegaAtLeastOnceWriter(context, EventColumns(self.options, self.encoder), self.options)


@dataclass(frozen=True)
class PravegaTransactionalSink(TwoPhaseCommitSink[PravegaCommittable, Any]):
    """Delivery exactly-once. ``lease_ms`` is how long a transaction outlives its keepers; known once it was started."""

    options: SinkOptions
    encoder: RecordEncoder | None
    lease_ms: int = 0

    @property
    def committable_serializer(self) -> JsonSerializer[PravegaCommittable]:
        return COMMITTABLE_SERIALIZER

    @property
    def target(self) -> str:
        return self.options.stream

    def validate_schema(self, schema: pa.Schema) -> None:
        check_schema(schema, self.options)

    def start(self, context: SinkContext) -> PravegaTransactionalSink:
        """Looks for the stream, and asks the controller how long a lease may be, once in a process.

        From now on the driver, too, keeps the query's transactions open.
        """
        options = self.options
        _prepare_stream(options)
        lease_ms = self.lease_ms or _leases.get((options.connection, options.stream, options.lease_ms))
        if context.checkpoint is not None:
            notes = TransactionLog(context.checkpoint, context.query_id)
            lease_keeper().watch(context.query_id, self.options.connection, notes.read, lease_ms)
        return replace(self, lease_ms=lease_ms)

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[PravegaCommittable, Any]:
        return PravegaTransactionalWriter(
            context, EventColumns(self.options, self.encoder), self.options, self.lease_ms
        )

    def create_committer(self, context: SinkContext) -> Committer[PravegaCommittable, Any]:
        notes = None if context.checkpoint is None else TransactionLog(context.checkpoint, context.query_id)
        return PravegaCommitter(
            SegmentStores(self.options.connection),
            notes,
            context.metrics,
            writer=f"penstock-{context.query_id}",
            out_of_orderness_ms=self.options.out_of_orderness_ms,
        )

    def describe_committable(self, committable: PravegaCommittable) -> str:
        return committable.describe()


def _prepare_stream(options: SinkOptions) -> Controller:
    """Looks for the stream, and makes it if that was asked for: before every batch, since it may be deleted between."""
    controller = controller_of(options.connection)
    scope, _, stream = options.stream.partition("/")
    if not controller.stream_exists(scope, stream):
        if options.create is None:
            raise BadConfigurationError(
                f"option 'stream': there is no {options.stream} at {options.connection.uri}. Make it, or set "
                "create=true"
            )
        controller.create_scope(scope)
        controller.create_stream(scope, stream, policy=options.create)
    if not options.framed and len(controller.current_segments(scope, stream)) != 1:
        raise BadConfigurationError(
            f"option 'framing': {options.stream} has not exactly one segment, so its bytes would have no order"
        )
    return controller


def _longest_lease(asked: tuple[ControllerSettings, str, int | None]) -> int:
    settings, path, wanted_ms = asked
    scope, _, stream = path.partition("/")
    controller = controller_of(settings)
    wanted = _LEASES_MS if wanted_ms is None else (wanted_ms,)
    allowed = next((lease for lease in wanted if controller.lease_is_allowed(scope, stream, lease)), None)
    if allowed is None:
        raise BadConfigurationError(
            f"option 'transactionLease': the server refuses transactions of {min(wanted)} ms on {path}. "
            "It allows 10 s to 10 min unless it is set otherwise; leave the option out for the longest"
        )
    return allowed


#: What a server allows does not change while it runs; to ask opens a transaction.
_leases: PerProcess[tuple[ControllerSettings, str, int | None], int] = PerProcess(_longest_lease, most=100)


def create_sink(options: SinkOptions, schema: pa.Schema) -> PravegaAtLeastOnceSink | PravegaTransactionalSink:
    """The sink of ``options`` for rows of ``schema``. Driver.

    Raises BadConfigurationError, and RetriableError if a schema registry does not answer.
    """
    encoder = options.format.create_encoder(schema)
    if options.delivery == "exactly-once":
        return PravegaTransactionalSink(options, encoder)
    return PravegaAtLeastOnceSink(options, encoder)
