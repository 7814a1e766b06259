"""The Pravega sinks: one delivers at least once or with best effort, one commits transactions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
from penstock_pravega.client import ControllerSettings, SegmentStores, controller_of
from penstock_pravega.options import SinkOptions
from penstock_pravega.sink._committable import COMMITTABLE_SERIALIZER, PravegaCommittable
from penstock_pravega.sink._committer import PravegaCommitter
from penstock_pravega.sink._leases import lease_keeper
from penstock_pravega.sink._rows import EventColumns, check_schema
from penstock_pravega.sink._transaction_log import TransactionLog
from penstock_pravega.sink._writer import PravegaAtLeastOnceWriter, PravegaTransactionalWriter

__all__ = ["PravegaTransactionalSink", "PravegaAtLeastOnceSink", "check_sink", "create_sink"]

#: Tried from the longest on: a server does not say what it allows.
_LEASES_MS = (600_000, 300_000, 120_000, 60_000, 30_000, 10_000)


@dataclass(frozen=True)
class PravegaAtLeastOnceSink(Sink):
    """Delivery none and at-least-once."""

    options: SinkOptions
    encoder: RecordEncoder | None

    def validate_schema(self, schema: pa.Schema) -> None:
        """Checks that rows of ``schema`` can become events."""
        check_schema(schema, self.options)

    def start(self, context: SinkContext) -> PravegaAtLeastOnceSink:
        """Checks that the stream is there, or makes it if that was asked for."""
        _prepare_stream(self.options)
        return self

    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Makes the writer of one attempt."""
        return PravegaAtLeastOnceWriter(context, EventColumns(self.options, self.encoder), self.options)


@dataclass(frozen=True)
class PravegaTransactionalSink(TwoPhaseCommitSink[PravegaCommittable, Any]):
    """Delivery exactly-once. ``lease_ms``, set by :meth:`start`, is how long a transaction outlives its keepers."""

    options: SinkOptions
    encoder: RecordEncoder | None
    lease_ms: int = 0

    @property
    def committable_serializer(self) -> JsonSerializer[PravegaCommittable]:
        """Stores transactions as JSON."""
        return COMMITTABLE_SERIALIZER

    @property
    def target(self) -> str:
        """The stream, as ``scope/stream``."""
        return self.options.stream

    def validate_schema(self, schema: pa.Schema) -> None:
        """Checks that rows of ``schema`` can become events."""
        check_schema(schema, self.options)

    def start(self, context: SinkContext) -> PravegaTransactionalSink:
        """Checks the stream and the lease (the lease once in a process).

        From now on the driver, too, keeps the query's transactions open.
        """
        _prepare_stream(self.options)
        limit = _LeaseLimit(self.options.connection, self.options.lease_ms, self.options.stream)
        lease_ms = self.lease_ms or _leases_ms.get(limit)
        if context.checkpoint is not None:
            log = TransactionLog(context.checkpoint, context.query_id)
            lease_keeper().watch(context.query_id, self.options.connection, log.read, lease_ms)
        return replace(self, lease_ms=lease_ms)

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[PravegaCommittable, Any]:
        """Makes the writer of one attempt."""
        return PravegaTransactionalWriter(
            context, EventColumns(self.options, self.encoder), self.options, self.lease_ms
        )

    def create_committer(self, context: SinkContext) -> Committer[PravegaCommittable, Any]:
        """Makes the driver's committer, with connections of its own."""
        log = None if context.checkpoint is None else TransactionLog(context.checkpoint, context.query_id)
        return PravegaCommitter(
            SegmentStores(self.options.connection),
            log,
            context.metrics,
            writer=f"penstock-{context.query_id}",
            out_of_orderness_ms=self.options.out_of_orderness_ms,
        )

    def describe_committable(self, committable: PravegaCommittable) -> str:
        """Names the transaction and the number of its events."""
        return committable.describe()


@dataclass(frozen=True)
class _LeaseLimit:
    """A question to one Pravega: which lease does it allow? Any of its ``stream`` gives the same answer."""

    connection: ControllerSettings
    wanted_ms: int | None
    stream: str = field(compare=False)


def _ask_lease(limit: _LeaseLimit) -> int:
    controller = controller_of(limit.connection)
    scope, _, stream = limit.stream.partition("/")
    wanted = _LEASES_MS if limit.wanted_ms is None else (limit.wanted_ms,)
    allowed = next((lease for lease in wanted if controller.lease_is_allowed(scope, stream, lease)), None)
    if allowed is None:
        raise BadConfigurationError(
            f"option 'transactionLease': the server refuses transactions of {min(wanted)} ms on {limit.stream}. "
            "It allows 10 s to 10 min unless it is set otherwise; leave the option out for the longest"
        )
    return allowed


#: Asking opens a transaction. A limit that was changed is seen by a query that starts a while later.
_leases_ms = PerProcess(_ask_lease)


def _prepare_stream(options: SinkOptions) -> None:
    """Checks that the stream is there, or makes it and its scope if that was asked for.

    Asks for each micro-batch and each write, because a stream can be deleted at any time; one call if it is there.
    """
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


def _kind_of(options: SinkOptions) -> type[PravegaAtLeastOnceSink | PravegaTransactionalSink]:
    return PravegaTransactionalSink if options.delivery == "exactly-once" else PravegaAtLeastOnceSink


def check_sink(
    options: SinkOptions, schema: pa.Schema | None
) -> type[PravegaAtLeastOnceSink | PravegaTransactionalSink]:
    """Returns the class of the sink. Raises BadConfigurationError as far as that can be known without connecting."""
    if options.format.is_at_hand() and schema is not None:
        create_sink(options, schema).validate_schema(schema)
    return _kind_of(options)


def create_sink(options: SinkOptions, schema: pa.Schema) -> PravegaAtLeastOnceSink | PravegaTransactionalSink:
    """Makes the sink of ``options`` for rows of ``schema``. Driver.

    Raises BadConfigurationError, and RetriableError if a schema registry does not answer.
    """
    return _kind_of(options)(options, options.format.create_encoder(schema))
