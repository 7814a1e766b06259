"""Which partition a record goes to, where its row does not say."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.errors import BadConfigurationError, RetriableError
from penstock.options import load_object
from penstock.per_process import PerProcess

__all__ = ["CLIENT_PARTITIONERS", "Partitioner", "Partitions", "create_partitioner", "partition_counts"]

#: Partitioners that librdkafka has itself. ``murmur2`` is what Java's client does by default: a hash of the key, and
#: where there is none whole batches to one partition after another.
CLIENT_PARTITIONERS = {"default": "murmur2_random", "murmur2": "murmur2_random"}
_COUNTS_KEPT_S = 60.0
_METADATA_TIMEOUT_S = 30.0


class PartitionCounts:
    """How many partitions topics have, asked once a minute. Task, single thread."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._settings = dict(client)
        self._admin: AdminClient | None = None
        self._known: dict[str, tuple[int, float]] = {}

    def of(self, topic: str) -> int:
        """Raises BadConfigurationError for a topic that is not there, RetriableError if no broker answers."""
        count, asked = self._known.get(topic, (0, 0.0))
        if not count or time.monotonic() - asked > _COUNTS_KEPT_S:
            count = self._ask(topic)
            self._known[topic] = (count, time.monotonic())
        return count

    def _ask(self, topic: str) -> int:
        if self._admin is None:
            self._admin = AdminClient(self._settings)
        try:
            found = self._admin.list_topics(topic, timeout=_METADATA_TIMEOUT_S).topics[topic]
        except KafkaException as error:
            raise RetriableError(f"no broker says how many partitions '{topic}' has: {error.args[0].str()}") from error
        if found.error is not None or not found.partitions:
            raise BadConfigurationError(f"topic '{topic}' can't be written to: {found.error or 'it has no partitions'}")
        return len(found.partitions)


class Partitioner(ABC):
    """Chooses partitions for whole batches. Task, single thread."""

    @abstractmethod
    def partition(self, batch: pa.RecordBatch, topic: str, count: int) -> pa.Array:
        """An int32 array: a partition below ``count`` for each row of ``batch``, all of which go to ``topic``."""


class RoundRobin(Partitioner):
    """Row by row to one partition after another. Tasks start at different ones."""

    def __init__(self, writer_index: int) -> None:
        self._next = writer_index

    def partition(self, batch: pa.RecordBatch, topic: str, count: int) -> pa.Array:
        """See the base class."""
        first, self._next = self._next, (self._next + batch.num_rows) % (1 << 31)
        numbers = pa.array(range(first, first + batch.num_rows), pa.int64())
        return pc.subtract(numbers, pc.multiply(pc.divide(numbers, count), count)).cast(pa.int32())


class TaskToPartition(Partitioner):
    """All rows of a task to one partition: Flink's default, few and large requests."""

    def __init__(self, writer_index: int) -> None:
        self._writer_index = writer_index

    def partition(self, batch: pa.RecordBatch, topic: str, count: int) -> pa.Array:
        """See the base class."""
        return pa.repeat(pa.scalar(self._writer_index % count, pa.int32()), batch.num_rows)


class FunctionPartitioner(Partitioner):
    """A user's function ``(batch, topic, count) -> partitions``; whatever it returns is made int32 and checked."""

    def __init__(self, name: str, function: Callable[[pa.RecordBatch, str, int], object]) -> None:
        self._name = name
        self._function = function

    def partition(self, batch: pa.RecordBatch, topic: str, count: int) -> pa.Array:
        """See the base class. Raises BadConfigurationError for a partition that is not there."""
        chosen = self._function(batch, topic, count)
        partitions = chosen if isinstance(chosen, pa.Array) else pa.array(chosen)
        if len(partitions) != batch.num_rows or partitions.null_count:
            raise BadConfigurationError(
                f"partitioner {self._name}: it returned {len(partitions)} values ({partitions.null_count} null) for "
                f"{batch.num_rows} rows"
            )
        if len(partitions) and not 0 <= pc.min(partitions).as_py() <= pc.max(partitions).as_py() < count:
            raise BadConfigurationError(
                f"partitioner {self._name}: it chose partitions {pc.min(partitions)} to {pc.max(partitions)} of "
                f"'{topic}', which has {count}"
            )
        return partitions.cast(pa.int32())


class Partitions:
    """Adds a column ``partition`` where rows have none. Rows that name a partition keep it."""

    def __init__(self, partitioner: Partitioner, counts: PartitionCounts) -> None:
        self._partitioner = partitioner
        self._counts = counts

    def fill(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """``batch`` (columns of ``DELIVERY_SCHEMA``) with every partition chosen."""
        topics = batch.column("topic")
        chosen: pa.Array | None = None
        for topic in topics.unique().to_pylist():
            partitions = self._partitioner.partition(batch, topic, self._counts.of(topic))
            chosen = partitions if chosen is None else pc.if_else(pc.equal(topics, topic), partitions, chosen)
        names = list(batch.schema.names)
        if "partition" in names:
            given = batch.column("partition")
            return batch.set_column(names.index("partition"), "partition", pc.coalesce(given, chosen))
        return batch.append_column("partition", chosen)


def create_partitioner(name: str, writer_index: int) -> Partitioner | None:
    """The partitioner of an option's text; ``None`` leaves it to the client. Raises BadConfigurationError."""
    if name in CLIENT_PARTITIONERS:
        return None
    if name == "round-robin":
        return RoundRobin(writer_index)
    if name == "task":
        return TaskToPartition(writer_index)
    function = load_object("option 'partitioner'", name)
    if not callable(function):
        raise BadConfigurationError(f"option 'partitioner': {name} is not a function")
    return FunctionPartitioner(name, function)


_counts = PerProcess[tuple[tuple[str, str], ...], PartitionCounts](lambda client: PartitionCounts(dict(client)))


def partition_counts(client: Mapping[str, str]) -> PartitionCounts:
    """This process's counts with these settings, kept from one task to the next."""
    return _counts.get(tuple(sorted(client.items())))
