"""The Kafka sinks: one that delivers at least once (or without a guarantee), one that commits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

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
    SupportsOtherRows,
    TwoPhaseCommitSink,
    WriterContext,
)
from penstock_kafka.client import ClientKind
from penstock_kafka.config import ClientSettings, check_transaction_timeout
from penstock_kafka.options import SinkOptions
from penstock_kafka.sink._committable import COMMITTABLE_SERIALIZER, KafkaCommittable
from penstock_kafka.sink._committer import KafkaCommitter
from penstock_kafka.sink._kept_producers import KEPT_PRODUCERS
from penstock_kafka.sink._keyed_rows import KeyedRows
from penstock_kafka.sink._partitioners import CLIENT_PARTITIONERS, Partitions, create_partitioner
from penstock_kafka.sink._rows import RecordColumns, check_schema
from penstock_kafka.sink._states import DescribedStates, ProvenStates, TransactionStates
from penstock_kafka.sink._writer import KafkaAtLeastOnceWriter, KafkaTransactionalWriter, RecordBatches
from penstock_kafka.transactions import DEFAULT_PREFIX, QueryPrefix, acquire_pool

if TYPE_CHECKING:
    from penstock_kafka.client.broker import Coordinators

__all__ = ["KafkaTransactionalSink", "KafkaAtLeastOnceSink", "check_sink", "create_sink"]

#: The clients' own default.
_MOST_RECORD_BYTES = 1_000_000
_MAX_TIMEOUT_SETTING = "transaction.max.timeout.ms"
#: Kafka's own default, for brokers that do not tell.
_USUAL_MAX_TIMEOUT_MS = 900_000


@dataclass(frozen=True)
class _Delivery:
    """What both sinks do alike. Picklable."""

    options: SinkOptions
    encoders: dict[str, RecordEncoder]
    keyed: KeyedRows | None = None

    def check_schema(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError if rows can't become records."""
        records = schema if self.keyed is None else self.keyed.schema
        check_schema(records, self.options.topic, frozenset(self.encoders))

    def producer_config(self, transaction_timeout_ms: int | None = None) -> dict[str, str]:
        config = self.options.producer.librdkafka()
        config["partitioner"] = CLIENT_PARTITIONERS.get(self.options.partitioner, "murmur2_random")
        delivery_timeout_ms = self.options.delivery_timeout_ms
        if transaction_timeout_ms is not None:
            config["transaction.timeout.ms"] = str(transaction_timeout_ms)
            delivery_timeout_ms = min(delivery_timeout_ms, transaction_timeout_ms)
        config.setdefault("delivery.timeout.ms", str(delivery_timeout_ms))
        return config

    def batches(self, writer_index: int) -> RecordBatches:
        columns = RecordColumns(self.options.topic, self.encoders)
        partitioner = create_partitioner(self.options.partitioner, writer_index)
        most_bytes = int(self.options.producer.librdkafka().get("message.max.bytes", _MOST_RECORD_BYTES))
        if partitioner is None:
            return RecordBatches(columns, None, most_bytes, self.keyed)
        # Here and not above: it brings kafka-python, for which few writers have a use.
        from penstock_kafka.client.broker import kafka_admin

        admin = kafka_admin(self.options.admin.librdkafka())
        return RecordBatches(columns, Partitions(partitioner, admin.partition_count), most_bytes, self.keyed)

    def shares_transactions_with(self, other: _Delivery) -> bool:
        """Returns whether a transaction of this one can hold the other's records: what sends them is the same."""
        return self._sender == other._sender

    @property
    def is_idempotent(self) -> bool:
        """Whether producers number their records: by default, if all in-sync replicas are to acknowledge them."""
        given = self.options.producer.librdkafka()
        acks = given.get("acks", "1" if self.options.delivery == "none" else "all").lower()
        return given.get("enable.idempotence", "true" if acks in ("all", "-1") else "false").lower() == "true"

    @property
    def _sender(self) -> tuple[Any, ...]:
        one = self.options
        return one.producer, one.admin, one.client, one.transactional_id_prefix, self.producer_config(0)


@dataclass(frozen=True)
class KafkaAtLeastOnceSink(Sink):
    """Delivery none and at-least-once."""

    delivery: _Delivery

    def validate_schema(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError if rows can't become records."""
        self.delivery.check_schema(schema)

    def start(self, context: SinkContext) -> KafkaAtLeastOnceSink:
        """Asks the brokers whether they take such records, once in a process."""
        _checked_brokers.get(_CanTheyWrite(self.delivery.options.admin, self.delivery.is_idempotent))
        return self

    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Makes the writer of a task, on a producer that the process keeps."""
        options = self.delivery.options
        config = self.delivery.producer_config()
        waits = options.delivery != "none"
        if not waits and "acks" not in config:
            config["acks"] = "1"
        return KafkaAtLeastOnceWriter(
            context,
            self.delivery.batches(context.writer_index),
            KEPT_PRODUCERS.acquire(ClientKind.of(config, options.client)),
            wait=waits,
            log_failures_only=options.log_failures_only,
        )


@dataclass(frozen=True)
class KafkaTransactionalSink(TwoPhaseCommitSink[KafkaCommittable, Any], SupportsOtherRows):
    """Delivery exactly-once. ``timeout_ms`` is what transactions may last; known once it was started, as is
    ``proves_first``: whether the proof is sent before records, since brokers can't list transactions.

    ``other``: that of a second sink, whose rows go into the same transactions.
    """

    delivery: _Delivery
    timeout_ms: int = 0
    proves_first: bool = False
    other: _Delivery | None = None

    @property
    def committable_serializer(self) -> JsonSerializer[KafkaCommittable]:
        """The stored form of a transaction."""
        return COMMITTABLE_SERIALIZER

    @property
    def target(self) -> str:
        """Where rows go, for a person."""
        return self.delivery.options.target

    def validate_schema(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError if rows can't become records."""
        self.delivery.check_schema(schema)

    def with_rows_of(self, other: Sink) -> Sink | None:
        """Rows of the same brokers go into the same transactions."""
        if not isinstance(other, KafkaTransactionalSink) or not self.delivery.shares_transactions_with(other.delivery):
            return None
        return replace(self, other=other.delivery)

    def start(self, context: SinkContext) -> KafkaTransactionalSink:
        """Asks the brokers how long a transaction may last, once in a process."""
        if self.timeout_ms:
            return self
        options = self.delivery.options
        brokers = _asked_brokers.get(_Question(options.admin, self.prefix_of(context.query_id)))
        most_ms, timeout_ms = brokers.most_ms, options.transaction_timeout_ms or brokers.most_ms
        if timeout_ms > most_ms:
            raise BadConfigurationError(
                f"option 'transactionTimeout': {timeout_ms} ms is more than the brokers allow, {most_ms} ms: lower it, "
                f"or raise the brokers' {_MAX_TIMEOUT_SETTING}"
            )
        check_transaction_timeout(options.producer, timeout_ms)
        return replace(self, timeout_ms=timeout_ms, proves_first=not brokers.can_list)

    def prefix_of(self, query_id: str) -> QueryPrefix:
        """Returns the prefix of a query's transactional ids."""
        return QueryPrefix(self.delivery.options.transactional_id_prefix or DEFAULT_PREFIX, query_id)

    @property
    def holds_back_readers(self) -> bool:
        """True: no reader gets past an open transaction."""
        return True

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[KafkaCommittable, Any]:
        """Makes the writer of a task, on a producer with a transaction of its own."""
        config = self.delivery.producer_config(self.timeout_ms)
        kind = ClientKind.of(config, self.delivery.options.client)
        batches = self.delivery.batches(context.writer_index)  # first: it may fail, and the writer releases the pool
        other_batches = self.other.batches(context.writer_index) if self.other is not None else None
        pool = acquire_pool(self.prefix_of(context.query_id), context.generation, kind)
        return KafkaTransactionalWriter(context, batches, pool, other_batches, proves_first=self.proves_first)

    def create_committer(self, context: SinkContext) -> Committer[KafkaCommittable, Any]:
        """Makes the driver's side, on connections that the process keeps."""
        connections = coordinators_of(self.delivery.options.admin)

        def states() -> TransactionStates:
            if connections.can_list():
                return DescribedStates(connections)
            topics = [one.options.topic for one in (self.delivery, self.other) if one is not None and one.options.topic]
            return ProvenStates(connections, self.timeout_ms or _USUAL_MAX_TIMEOUT_MS, topics, connections.shut_out)

        return KafkaCommitter(connections, self.prefix_of(context.query_id), context.metrics, states)

    def describe_committable(self, committable: KafkaCommittable) -> str:
        """Describes a transaction in words."""
        return committable.describe()


def coordinators_of(settings: ClientSettings) -> Coordinators:
    """This process's connections with ``settings``. Driver: imported when asked for, since it takes a while."""
    from penstock_kafka.client.broker import coordinators

    return coordinators(settings.settings)


@dataclass(frozen=True)
class _CanTheyWrite:
    """A question to brokers: do they take records, of an idempotent producer if it is one?"""

    settings: ClientSettings
    idempotent: bool


def _check_brokers(question: _CanTheyWrite) -> _CanTheyWrite:
    from penstock_kafka.client.broker import WRITING, WRITING_IDEMPOTENTLY, kafka_admin

    kafka_admin(question.settings.librdkafka()).require(WRITING_IDEMPOTENTLY if question.idempotent else WRITING)
    return question


_checked_brokers = PerProcess(_check_brokers)


def _prepare_brokers(question: _Question) -> _Brokers:
    from penstock_kafka.client.broker import TRANSACTIONS

    connections = coordinators_of(question.settings)
    connections.require(TRANSACTIONS)
    # New brokers have none, and it takes them seconds to make some.
    connections.await_group_coordinators(f"{question.prefix.text}start")
    value = connections.broker_setting(_MAX_TIMEOUT_SETTING)
    return _Brokers(int(value) if value is not None else _USUAL_MAX_TIMEOUT_MS, connections.can_list())


@dataclass(frozen=True)
class _Brokers:
    """How long a transaction may last there, in ms, and whether they list transactions."""

    most_ms: int
    can_list: bool


@dataclass(frozen=True)
class _Question:
    """A question to brokers: what do they allow? They give every query the same answer."""

    settings: ClientSettings
    prefix: QueryPrefix = field(compare=False)


#: A limit that was changed is seen by a query that starts a while later.
_asked_brokers = PerProcess(_prepare_brokers)


def _kind_of(options: SinkOptions) -> type[KafkaAtLeastOnceSink | KafkaTransactionalSink]:
    return KafkaTransactionalSink if options.delivery == "exactly-once" else KafkaAtLeastOnceSink


def check_sink(options: SinkOptions, schema: pa.Schema | None) -> type[KafkaAtLeastOnceSink | KafkaTransactionalSink]:
    """Returns the class of the sink. Raises BadConfigurationError as far as that can be known without connecting."""
    if all([options.key_format.is_at_hand(), options.value_format.is_at_hand()]) and schema is not None:
        create_sink(options, schema).validate_schema(schema)
    return _kind_of(options)


def create_sink(options: SinkOptions, schema: pa.Schema) -> KafkaAtLeastOnceSink | KafkaTransactionalSink:
    """Returns the sink of ``options`` for rows of ``schema``. Driver.

    Raises BadConfigurationError, and RetriableError if a schema registry does not answer.
    """
    formats = (options.key_format, options.value_format)
    keyed = KeyedRows(schema, options.changes, key_is_raw=options.key_format.is_raw) if options.changes.keys else None
    records = schema if keyed is None else keyed.schema
    encoders = {one.part: one.create_encoder(records, topic=options.topic) for one in formats}
    delivery = _Delivery(options, {part: encoder for part, encoder in encoders.items() if encoder is not None}, keyed)
    return _kind_of(options)(delivery)
