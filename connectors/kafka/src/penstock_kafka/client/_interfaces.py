"""What the connector needs of a Kafka client: ranges of partitions in as Arrow batches, Arrow batches out as records.

Two implementations hold these contracts and are tested alike: one that speaks Kafka's protocol itself (``consumer``,
``producer``) and moves whole batches through a compiled part (``codec``), and one on confluent-kafka's classes
(``librdkafka``), used where the compiled part is missing or a setting is asked for that only librdkafka knows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.errors import DataLostError, FatalError, RetriableError
from penstock_kafka.client._held_back import HeldBack

__all__ = [
    "DELIVERY_SCHEMA",
    "HEADERS_TYPE",
    "MAX_BATCH_BYTES",
    "MAX_BATCH_ROWS",
    "RECORD_SCHEMA",
    "BatchProducer",
    "ClientConfig",
    "DeliveryError",
    "Fetched",
    "OffsetOutOfRangeError",
    "PartitionRange",
    "ProducerFencedError",
    "ProducerIdentity",
    "RangeConsumer",
    "TopicReplacedError",
    "TransientClientError",
    "deliverable",
]

#: A record's headers, as in Spark's column of that name.
HEADERS_TYPE = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string(), nullable=True), pa.field("value", pa.binary())]))
)

#: What a consumer returns. ``timestamp`` is null where a record has none; ``timestampType`` is Spark's: 0 create time,
#: 1 log append time, -1 none. ``headers`` is there only if asked for: null for a record without headers; duplicates,
#: order and null values are kept.
RECORD_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("timestampType", pa.int32(), nullable=False),
        pa.field("headers", HEADERS_TYPE),
    ]
)

#: What one poll hands over at most, about. With its offsets and times, a batch then takes less than 2 MiB: memory of
#: that size malloc, here, and the JVM's pool, at Spark's side, use again instead of asking the operating system for
#: fresh pages each time. Measured: 6 to 9 % more rows/s than with 2.5 MiB, which the pool rounds up to 4.
MAX_BATCH_BYTES = 7 << 18
MAX_BATCH_ROWS = 16_384

#: What a producer takes: ``topic`` never null; ``partition`` null or -1 leaves the choice to the client's partitioner;
#: ``timestamp`` null (or exactly the epoch) means now. Columns ``key``, ``partition``, ``timestamp`` and ``headers``
#: may be left out.
DELIVERY_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32()),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("headers", HEADERS_TYPE),
    ]
)

#: Settings as librdkafka spells them. Values may be secrets: never shown.
ClientConfig = Mapping[str, str]


@dataclass(frozen=True)
class PartitionRange:
    """Offsets ``start`` (inclusive) to ``end`` (exclusive) of one partition. ``start <= end``.

    ``topic_id``: of the topic that has these offsets, spelled as Kafka's tools do; empty for whichever has the name.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""


@dataclass(frozen=True)
class Fetched:
    """Records of one range, in offset order, all within the range.

    ``range_index`` counts from the start of ``assign``'s list.

    ``finished``: nothing of this range will follow. It is so when a record at or after its end was seen, or the
    client came to the end of the partition (of its committed part, for read_committed) at or after the range's end:
    gaps left by control records, aborted transactions and compaction are no loss. An empty range is finished at once.
    """

    range_index: int
    records: pa.RecordBatch | None
    finished: bool


class TransientClientError(RetriableError):
    """The brokers can't be reached, or a request timed out."""


class OffsetOutOfRangeError(DataLostError):
    """The partition does not hold ``offset`` any more, or not yet: read past retention, truncated or re-created."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(f"topic '{topic}' partition {partition} does not hold offset {offset}")
        self.topic = topic
        self.partition = partition
        self.offset = offset


class TopicReplacedError(DataLostError):
    """The topic was deleted, and another one has its name by now."""

    def __init__(self, topic: str, text: str) -> None:
        super().__init__(f"topic '{topic}' was deleted and re-created: {text}")
        self.topic = topic


class ProducerFencedError(FatalError):
    """Another producer with the same transactional id has taken over, or the transaction timed out."""


class DeliveryError(FatalError):
    """A record was refused for good (too large, unknown topic, not authorized …). ``code`` is Kafka's name for why."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class RangeConsumer(ABC):
    """Reads ranges of partitions. Kept over tasks: :meth:`assign` again starts the next task's ranges.

    Used by one thread at a time, except for :meth:`wake_up`. Never joins a consumer group, never commits offsets.
    Memory is bounded by the client's queue (``queued.max.messages.kbytes``, 16 MiB unless set), an answer of each
    broker, and what one poll hands over (``max_rows`` records, or fewer of about 1.75 MiB together).
    """

    @property
    @abstractmethod
    def held_back(self) -> HeldBack:
        """For how long quotas have held reading back since the consumer was made. Meanwhile polls return nothing."""

    @property
    @abstractmethod
    def reads_by_id(self) -> bool:
        """Whether a topic that was replaced by another one of its name is noticed, where brokers have ids (Kafka 3.1).

        :meth:`poll` raises :class:`TopicReplacedError` then.
        """

    @abstractmethod
    def assign(self, ranges: Sequence[PartitionRange], *, headers: bool) -> None:
        """Replaces what is read. Leftovers of earlier ranges are dropped. An empty list stops all fetching."""

    @abstractmethod
    def poll(self, timeout_ms: int, max_rows: int = MAX_BATCH_ROWS) -> list[Fetched]:
        """Returns what is there, or arrives within ``timeout_ms``; empty if nothing did or it was woken up.

        Raises :class:`OffsetOutOfRangeError`, :class:`TransientClientError` (no broker that leads what is left can be
        reached, as far as the client knows; calling again continues where it stopped),
        :class:`penstock.errors.BadConfigurationError` (not authorized, authentication failed),
        :class:`penstock.errors.DataLostError` for a topic or partition that does not exist (any more), and
        :class:`TopicReplacedError` if :attr:`reads_by_id`.
        """

    @abstractmethod
    def wake_up(self) -> None:
        """Makes a blocked or the next :meth:`poll` return at once. Any thread."""

    @abstractmethod
    def close(self) -> None:
        """Ends the client. Idempotent."""


@dataclass(frozen=True)
class ProducerIdentity:
    """What the transaction coordinator knows a producer by; one transaction here is one such pair.

    ``in_doubt``: before it was given, a request for it was sent and not answered. That request may still arrive, and
    would shut this producer out. librdkafka does not tell.
    """

    producer_id: int
    epoch: int
    in_doubt: bool = field(default=False, compare=False)


class BatchProducer(ABC):
    """Sends Arrow batches, plain (idempotent) or in a transaction. Used by one thread. Not to be used after a fork.

    Memory is bounded by the client's queue (``queue.buffering.max.kbytes``): :meth:`produce` waits while it is full. It
    may also wait for the brokers to describe a topic.
    """

    @abstractmethod
    def produce(self, batch: pa.RecordBatch) -> None:
        """Queues every row of ``batch`` (columns of :data:`DELIVERY_SCHEMA`, in row order for each partition).

        Raises :class:`DeliveryError` for the first record refused so far (also of earlier batches, again each time;
        the message names topic, partition, size and cause; the other rows are queued all the same),
        :class:`TransientClientError` after ``delivery.timeout.ms`` without success, :class:`ProducerFencedError`.
        """

    @abstractmethod
    def flush(self) -> None:
        """Returns when every record is acknowledged; raises as :meth:`produce` does if one was not."""

    @property
    @abstractmethod
    def held_back(self) -> HeldBack:
        """For how long quotas have held writing back since the producer was made. The client that speaks the protocol
        itself does not count that time as a delay in delivery; librdkafka does.
        """

    @property
    @abstractmethod
    def failed(self) -> int:
        """How many records were refused so far."""

    @abstractmethod
    def init_transactions(self, timeout_ms: int) -> ProducerIdentity:
        """Registers the transactional id, fencing its earlier user, and returns the identity. At most once.

        Raises BadConfigurationError (a timeout above the broker's maximum, not authorized), TransientClientError.
        """

    @abstractmethod
    def begin_transaction(self) -> None:
        """Begins. After :meth:`init_transactions`; at most once in a producer's life: it is ended from outside."""

    @abstractmethod
    def send_offset(self, group: str, topic: str, partition: int, offset: int, metadata: str, timeout_ms: int) -> None:
        """Commits one offset of a consumer group as a part of the transaction. Any thread, at any time."""

    @abstractmethod
    def abort_transaction(self, timeout_ms: int) -> None:
        """Throws the open transaction away, queued records included."""

    @abstractmethod
    def close(self) -> None:
        """Ends the client at once; an open transaction stays open, unsent records are dropped.

        Idempotent. May take long: any thread.
        """


_BYTES = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
_SENT_AS_IS = {"key": _BYTES, "value": _BYTES, "topic": (pa.string(), pa.large_string())}


def deliverable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """``batch`` with the columns of DELIVERY_SCHEMA that it has, each of a type that is sent as it is."""
    columns, fields = [], []
    for wanted in DELIVERY_SCHEMA:
        index = batch.schema.get_field_index(wanted.name)
        if index < 0:
            continue
        column = batch.column(index)
        if column.type != wanted.type and column.type not in _SENT_AS_IS.get(wanted.name, ()):
            column = column.cast(wanted.type)
        columns.append(column)
        fields.append(pa.field(wanted.name, column.type))
    missing = {"topic", "value"} - {one.name for one in fields}
    if missing:
        raise ValueError(f"records to send lack columns {sorted(missing)}")
    if columns[[one.name for one in fields].index("topic")].null_count:
        raise ValueError("records to send have a null topic")
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
