"""Which partition a record goes to, where its row does not say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.options import load_object

__all__ = ["CLIENT_PARTITIONERS", "Partitioner", "Partitions", "create_partitioner"]

#: Partitioners that librdkafka has itself. ``murmur2`` is what Java's client does by default: a hash of the key, and
#: where there is none whole batches to one partition after another.
CLIENT_PARTITIONERS = {"default": "murmur2_random", "murmur2": "murmur2_random"}


class Partitioner(ABC):
    """Chooses partitions for whole batches. Task, single thread."""

    @abstractmethod
    def partition(self, batch: pa.RecordBatch, topic: str, count: int) -> pa.Array:
        """Returns an int32 array: a partition below ``count`` for each row of ``batch``, all for ``topic``."""


class RoundRobin(Partitioner):
    """Row by row to one partition after another. Tasks start at different ones."""

    def __init__(self, writer_index: int) -> None:
        self._next = writer_index

    def partition(self, batch: pa.RecordBatch, topic: str, count: int) -> pa.Array:
        """Counts on from row to row."""
        first, self._next = self._next, (self._next + batch.num_rows) % (1 << 31)
        numbers = pa.array(range(first, first + batch.num_rows), pa.int64())
        return pc.subtract(numbers, pc.multiply(pc.divide(numbers, count), count)).cast(pa.int32())


class TaskToPartition(Partitioner):
    """All rows of a task to one partition: Flink's default, few and large requests."""

    def __init__(self, writer_index: int) -> None:
        self._writer_index = writer_index

    def partition(self, batch: pa.RecordBatch, topic: str, count: int) -> pa.Array:
        """Chooses the task's partition for every row."""
        return pa.repeat(pa.scalar(self._writer_index % count, pa.int32()), batch.num_rows)


class FunctionPartitioner(Partitioner):
    """A user's function ``(batch, topic, count) -> partitions``; whatever it returns is made int32 and checked."""

    def __init__(self, name: str, function: Callable[[pa.RecordBatch, str, int], object]) -> None:
        self._name = name
        self._function = function

    def partition(self, batch: pa.RecordBatch, topic: str, count: int) -> pa.Array:
        """Calls the function. Raises BadConfigurationError for a partition that is not there."""
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
    """Adds a column ``partition`` where rows have none. Rows that name a partition keep it.

    ``count_of`` says how many partitions a topic has.
    """

    def __init__(self, partitioner: Partitioner, count_of: Callable[[str], int]) -> None:
        self._partitioner = partitioner
        self._count_of = count_of

    def fill(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """``batch`` (columns of ``DELIVERY_SCHEMA``) with every partition chosen."""
        topics = batch.column("topic")
        chosen: pa.Array | None = None
        for topic in topics.unique().to_pylist():
            partitions = self._partitioner.partition(batch, topic, self._count_of(topic))
            chosen = partitions if chosen is None else pc.if_else(pc.equal(topics, topic), partitions, chosen)
        names = list(batch.schema.names)
        if "partition" in names:
            given = batch.column("partition")
            return batch.set_column(names.index("partition"), "partition", pc.coalesce(given, chosen))
        return batch.append_column("partition", chosen)


def create_partitioner(name: str, writer_index: int) -> Partitioner | None:
    """Returns the partitioner of an option's text; ``None`` leaves it to the client. Raises BadConfigurationError."""
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
