"""Source contracts. No engine is imported here; ``penstock.spark`` turns a Source into a Spark data source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from penstock.errors import RetriableError
from penstock.metrics import Metrics
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.serialization import SimpleVersionedSerializer
from penstock.source._filters import ColumnFilter

__all__ = [
    "EnumeratorContext",
    "ReadLimits",
    "ReaderContext",
    "RecordEmitter",
    "RecordsBySplits",
    "Source",
    "SourceSplit",
    "SplitEnumerator",
    "SplitReader",
    "SupportsExplain",
    "SupportsFilterPushDown",
    "SupportsOffsetAdoption",
]


class SourceSplit(Protocol):
    """An immutable piece of the source's data that one reader reads from its start to its end.

    ``split_id`` is unique within a micro-batch. ``size_bytes`` is an estimate, used for read limits and for packing
    several small splits into one task. ``group`` names what a limit on files counts (a file's path); splits that share
    it count once. A split is hashable and compares by value (a frozen dataclass).
    """

    @property
    def split_id(self) -> str:
        """Unique among the splits of one batch."""

    @property
    def size_bytes(self) -> int:
        """Estimated bytes to read."""

    @property
    def group(self) -> str:
        """What ``max_groups`` counts; for most sources the split id."""


SplitT = TypeVar("SplitT", bound=SourceSplit)
StateT = TypeVar("StateT")
ElementT = TypeVar("ElementT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class ReadLimits:
    """How much one micro-batch takes: ``None`` is no limit. At least one split is always taken.

    A batch of fewer than ``min_records`` is put off, until ``max_trigger_delay_ms`` after the last one.
    """

    max_groups: int | None = None
    max_bytes: int | None = None
    max_records: int | None = None
    min_records: int | None = None
    max_trigger_delay_ms: int = 0


class EnumeratorContext(Protocol):
    """What an enumerator may ask of its engine. All callbacks run in the coordinator thread, one at a time."""

    @property
    def metrics(self) -> Metrics:
        """Counters and gauges of the source."""

    @property
    def parallelism(self) -> int:
        """How many tasks the engine runs at a time, as far as it knows: for sources that can't tell sizes."""

    @property
    def retry(self) -> RetryPolicy:
        """For what the engine can't call again: see :class:`SplitEnumerator`."""

    def call_async(
        self,
        call: Callable[[], ResultT],
        handler: Callable[[ResultT | None, BaseException | None], None],
        *,
        interval_ms: int | None = None,
    ) -> None:
        """Runs ``call`` in a background thread, then ``handler(result, error)`` in the coordinator thread.

        With ``interval_ms`` it is repeated: the next run starts that long after the last one ended. ``call`` must not
        touch the enumerator's fields; ``handler`` may. Never runs on the path of a trigger.
        """

    def await_handlers(self, until: Callable[[], bool], timeout_ms: int) -> bool:
        """Runs handlers of finished calls until ``until()`` is true. Coordinator thread only. False on timeout."""


class SplitEnumerator(ABC, Generic[SplitT, StateT]):
    """Finds splits and hands them out, lazily. One per stream, in a long-lived process on the driver.

    Every method is called from the coordinator thread. One that raises a RetriableError is called again, until
    ``retryTimeout`` is over: it must leave the enumerator as it was. The state returned by :meth:`snapshot_state` is
    the stream's offset: restoring it and asking again must hand out exactly what had not been handed out at that point.
    """

    @abstractmethod
    def start(self) -> None:
        """Called once, before any other method. Starts discovery with ``context.call_async``; must not block."""

    @abstractmethod
    def handle_split_request(self) -> SplitT | None:
        """Returns the next split, or ``None`` if there is none now. Cheap: work is done in ``call_async``.

        The first call after a start waits for the first discovery (``context.await_handlers``), but not for long: a
        query may have other sources. After :meth:`prepare_for_available_now` there is nothing to wait for.
        """

    def take_batch(self, limits: ReadLimits) -> list[SplitT]:
        """Returns the splits of the next micro-batch, empty if there is nothing to read now.

        By default splits are requested one by one until ``max_groups`` or ``max_bytes`` is met; see
        :class:`BatchEnumerator` for limits that are shared out among splits, such as records.
        """
        splits: list[SplitT] = []
        groups: set[str] = set()
        size = 0
        try:
            while (split := self.handle_split_request()) is not None:
                over_groups = limits.max_groups is not None and len(groups | {split.group}) > limits.max_groups
                over_bytes = limits.max_bytes is not None and size + split.size_bytes > limits.max_bytes
                if splits and (over_groups or over_bytes):
                    self.add_splits_back([split])
                    break
                splits.append(split)
                groups.add(split.group)
                size += split.size_bytes
        except RetriableError:
            if not splits:
                raise
            # What was handed out is a batch; if the failure lasts, the next batch raises it.
        return splits

    def wants_checkpoint(self) -> bool:
        """Returns whether the state must become durable now, even by a micro-batch without splits. Asked after taking a
        batch.

        So it is after a start at "the latest": what comes while the query is down must be after a position that is
        kept.
        """
        return False

    @abstractmethod
    def add_splits_back(self, splits: Sequence[SplitT]) -> None:
        """Takes back splits handed out since the last snapshot that no reader will read; they are handed out again."""

    @abstractmethod
    def snapshot_state(self) -> StateT:
        """Returns the state after everything handed out so far. Bounded in size; says by what in its documentation."""

    def prepare_for_available_now(self) -> None:
        """Fixes the end: discover once, now (this may take time), and hand out nothing that is found later."""

    def is_exhausted(self) -> bool:
        """Returns whether :meth:`handle_split_request` will never return a split again (a bounded source, or
        available-now).
        """
        return False

    def has_ended(self) -> bool:
        """Returns whether a bounded stream is at its final end, not only this run's. Its query is then stopped."""
        return False

    def notify_checkpoint_complete(self, splits: Sequence[SplitT]) -> None:
        """The batch that read ``splits`` is committed everywhere: they may be archived or removed at the source.

        Called again with the same splits after an error that may pass. Not called if the process ends before it.
        """

    def describe_backlog(self) -> dict[str, int]:
        """Returns what is waiting, as numbers for the query's progress (``files``, ``bytes``, …). Never blocks."""
        return {}

    def describe_event_time(self) -> dict[str, Any]:
        """Returns the event times in the query's progress, if the source aligns its splits by them. Never blocks.

        ``frontiers``: split → the latest time handed out of it (ISO 8601); ``held``: splits that wait for slower ones;
        ``idle``: splits that no other waits for.
        """
        return {}

    def close(self) -> None:
        """Ends threads and connections. Called once; may be called without :meth:`start`."""


class BatchEnumerator(SplitEnumerator[SplitT, StateT]):
    """An enumerator that shares the limits of a micro-batch out among its splits: it implements :meth:`take_batch`."""

    def handle_split_request(self) -> SplitT | None:
        """Returns the first split of a micro-batch without limits; the others are taken back."""
        splits = self.take_batch(ReadLimits())
        self.add_splits_back(splits[1:])
        return splits[0] if splits else None

    @abstractmethod
    def take_batch(self, limits: ReadLimits) -> list[SplitT]:
        """Returns the splits of the next micro-batch, empty if there is nothing to read now."""


@dataclass
class RecordsBySplits(Generic[ElementT]):
    """What one fetch brought: elements with the id of their split, in order, and the splits that are finished.

    A split is finished once all its elements are in this or an earlier fetch; an empty split is just finished.
    """

    records: list[tuple[str, ElementT]] = field(default_factory=list)
    finished_splits: list[str] = field(default_factory=list)


class SplitReader(ABC, Generic[ElementT, SplitT]):
    """Fetches elements of the splits it was given. Runs in a fetcher thread of a task; one per task.

    An element is whatever is cheap to hand over (a block of bytes, an Arrow batch); it is turned into output by the
    :class:`RecordEmitter` in the task's main thread. At most a few elements wait between the two, so an element of a
    few MiB bounds the task's memory.
    """

    @abstractmethod
    def handle_splits_changes(self, splits: Sequence[SplitT]) -> None:
        """Adds splits to read, in order. Called before the first fetch."""

    @abstractmethod
    def fetch(self) -> RecordsBySplits[ElementT]:
        """The next elements. Returns soon, empty if nothing is there yet or if it was woken up.

        Re-entrant: whatever it returned is not returned again, and a fetch that raised or was woken can be repeated.
        Raises :class:`penstock.errors.RetriableError` for a failure that may pass: it is then repeated, until nothing
        has come for ``retryTimeout``.
        """

    @abstractmethod
    def wake_up(self) -> None:
        """Makes a blocked or the next :meth:`fetch` return at once. Called from another thread."""

    @abstractmethod
    def close(self) -> None:
        """Frees everything. Called from the fetcher thread or, if it never ran, from the main thread."""


class RecordEmitter(ABC, Generic[ElementT, SplitT]):
    """Turns elements into Arrow batches of the requested schema and advances the split's state.

    Runs in the task's main thread. Split state is mutable, made from the immutable split by :meth:`split_state`.
    """

    def split_state(self, split: SplitT) -> Any:
        """Returns the mutable state of ``split`` at its start."""
        return split

    @abstractmethod
    def emit_record(self, element: ElementT, split_state: Any) -> Iterator[pa.RecordBatch]:
        """Batches of ``element``, in order, with exactly the columns of ``ReaderContext.schema``.

        Types may be any that casts safely to the schema's (``large_string`` for ``string`` …): the reader casts. If it
        raises :class:`penstock.errors.RetriableError` before the first batch, it is called again with the same element
        for ``retryTimeout``: until then, leave ``split_state`` as it was.
        """

    def finish_split(self, split_state: Any) -> Iterator[pa.RecordBatch]:
        """Returns what is left when a split is finished. Nothing, for most emitters.

        Called again as :meth:`emit_record` is.
        """
        return iter(())


@dataclass(frozen=True)
class ReaderContext:
    """What a reader and an emitter get. ``schema`` is what the engine wants: names, order and Arrow types.

    The engine repeats a fetch that fails; ``retry`` is for what only the connector can repeat.
    """

    schema: pa.Schema
    metrics: Metrics
    retry: RetryPolicy = NO_RETRIES


class Source(ABC, Generic[SplitT, StateT]):
    """Ties enumerator, reader, emitter and serializers together. Built on the driver, pickled to the tasks.

    Holds configuration only: no connection, no thread, no open file. Options have been validated when it is built.
    """

    @property
    @abstractmethod
    def split_serializer(self) -> SimpleVersionedSerializer[SplitT]:
        """Stored in the engine's offset log with every batch."""

    @property
    @abstractmethod
    def enumerator_serializer(self) -> SimpleVersionedSerializer[StateT]:
        """Stored in the engine's offset log with every batch."""

    def fixed_schema(self) -> pa.Schema | None:
        """Returns the schema where the options decide it (text, binary); ``None`` if data or the user must say."""
        return None

    @property
    def remembers_schema(self) -> bool:
        """Whether :meth:`infer_schema` stores what it returns, so that it is the same after a restart.

        Only then can a stream have an inferred schema.
        """
        return False

    def infer_schema(self) -> pa.Schema:
        """Returns the schema from a look at the data. Raises BadConfigurationError where that can't be
        had.
        """
        from penstock.errors import BadConfigurationError

        raise BadConfigurationError("this source cannot infer a schema: give one with .schema(...)")

    def validate_schema(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError if the source can't deliver ``schema``. Called on the driver before planning."""

    def read_limits(self) -> ReadLimits:
        """Returns how much a micro-batch takes, from the options."""
        return ReadLimits()

    @property
    def open_cost_bytes(self) -> int:
        """What starting a split costs, as bytes that could be read; Spark's spark.sql.files.openCostInBytes."""
        return 4 << 20

    def target_task_bytes(self, parallelism: int, total_bytes: int) -> int:
        """Returns how many bytes of small splits to pack into one task, given ``parallelism`` slots and a batch's
        bytes.
        """
        return max(4 << 20, min(128 << 20, total_bytes // max(1, parallelism)))

    def assign_splits(self, splits: Sequence[SplitT], parallelism: int) -> list[list[SplitT]]:
        """Returns the splits of each task of a batch, in order. Driver; the same for every replay in the same session.

        By default neighbours are packed together until a task is worth starting (:meth:`target_task_bytes`).
        """
        target = self.target_task_bytes(parallelism, sum(split.size_bytes + self.open_cost_bytes for split in splits))
        tasks: list[list[SplitT]] = []
        filled = 0
        for split in splits:
            cost = split.size_bytes + self.open_cost_bytes
            if tasks and filled + split.size_bytes <= target:
                tasks[-1].append(split)
                filled += cost
            else:
                tasks.append([split])
                filled = cost
        return tasks

    @abstractmethod
    def create_enumerator(
        self, context: EnumeratorContext, checkpoint: StateT | None
    ) -> SplitEnumerator[SplitT, StateT]:
        """Returns a new enumerator, or one restored from ``checkpoint``. Driver."""

    def list_splits(self, context: EnumeratorContext) -> Iterator[SplitT]:
        """Every split there is now, for a bounded (batch) read. Driver."""
        enumerator = self.create_enumerator(context, None)
        try:
            enumerator.start()
            enumerator.prepare_for_available_now()
            while (split := enumerator.handle_split_request()) is not None:
                yield split
        finally:
            enumerator.close()

    @abstractmethod
    def create_reader(self, context: ReaderContext) -> SplitReader[Any, SplitT]:
        """Returns a new reader. Task. A RetriableError is tried again for ``retryTimeout``."""

    @abstractmethod
    def create_emitter(self, context: ReaderContext) -> RecordEmitter[Any, SplitT]:
        """Returns a new emitter. Task."""


class SupportsFilterPushDown(ABC):
    """For a :class:`Source` that can leave out rows on its side, in batch reads."""

    @abstractmethod
    def push_filters(self, filters: Sequence[ColumnFilter]) -> tuple[Source[Any, Any], Sequence[ColumnFilter]]:
        """Returns a source that applies some of ``filters``, and those of them that it applies in full.

        Driver, before the read is planned. The engine applies all others.
        """


class SupportsExplain(ABC):
    """For a :class:`Source` that can say what a batch read would ask of the system: ``penstock explain`` shows it."""

    @abstractmethod
    def explain(self) -> Sequence[str]:
        """Returns what would be asked, a line each. Driver; may connect, reads no rows."""


class SupportsOffsetAdoption(ABC, Generic[SplitT, StateT]):
    """For a :class:`Source` that can continue a checkpoint which another connector wrote.

    A query then changes its source by one word, and keeps its checkpoint.
    """

    @abstractmethod
    def adopt_offset(self, value: Mapping[str, Any]) -> StateT | None:
        """Returns the state that another connector's offset stands for; ``None`` if it can't be read."""

    @abstractmethod
    def splits_between(self, start: StateT | None, end: StateT) -> list[SplitT]:
        """Returns the splits of a batch that the other connector planned between two adopted offsets.

        ``start`` is ``None`` for a first batch. Raises FatalError if nothing says where that one began.
        """
