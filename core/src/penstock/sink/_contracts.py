"""Sink contracts. No engine is imported here; ``penstock.spark`` turns a sink into a Spark data source writer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadDataError, FatalError
from penstock.metrics import Metrics
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.serialization import JsonSerializer, SimpleVersionedSerializer
from penstock.storage import Storage

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "TIMESTAMPS_PER_RUN",
    "CheckpointLocation",
    "Committer",
    "CommittingSinkWriter",
    "Found",
    "Kept",
    "PreparedCommit",
    "RefusedRows",
    "StateReplacement",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "StateRoller",
    "SupportsCompleteMode",
    "SupportsOtherRows",
    "SupportsStateRolling",
    "SupportsWriteTimestamps",
    "TwoPhaseCommitSink",
    "WriterContext",
    "describe_state",
    "state_serializer_of",
]

CommittableT = TypeVar("CommittableT")
StateT = TypeVar("StateT")


#: How many timestamps, one microsecond apart, an attempt may use: 10 ms of them.
TIMESTAMPS_PER_RUN = 10_000


def _nothing_to_json(nothing: Any) -> dict[str, Any]:
    if nothing is not None:
        raise FatalError("only a sink that is a SupportsStateRolling carries state from batch to batch")
    return {}


def _nothing_from_json(version: int, fields: Any) -> None:
    if fields:
        raise FatalError(
            "the decision log holds what a sink carries from batch to batch, and this sink carries nothing: it was "
            "written by another sink, or by another version of this one"
        )


#: For sinks that carry nothing from batch to batch, and for committables of those that have nothing to commit.
NOTHING_SERIALIZER: JsonSerializer[Any] = JsonSerializer(1, _nothing_to_json, _nothing_from_json)


@dataclass(frozen=True)
class CheckpointLocation:
    """A query's checkpoint: ``path`` in ``storage``. Reachable from the driver and from tasks. Picklable."""

    storage: Storage
    path: str


def _nobody_asks() -> None:
    """Outside of a committer there is nothing to own."""


@dataclass(frozen=True)
class SinkContext:
    """What every part of a sink knows about its query.

    ``query_id`` never changes over restarts of a query and is unique among queries: everything that a sink leaves in
    the target system carries it, so that clean-up never touches another query's. ``schema`` is that of the rows.
    ``checkpoint`` is the query's own; ``None`` for a batch write, which has none. ``check_owner`` is for committers
    whose publishing can't be repeated: it reads the decision log, and raises FatalError if another run has taken it
    over. The engine repeats a start and the making of a writer that fail; ``retry`` is for what only the connector can
    repeat.
    """

    query_id: str
    schema: pa.Schema
    metrics: Metrics = field(default_factory=Metrics, compare=False)
    checkpoint: CheckpointLocation | None = None
    check_owner: Callable[[], None] = field(default=_nobody_asks, compare=False)
    retry: RetryPolicy = NO_RETRIES


class RefusedRows(Protocol):
    """Takes rows that can't be written, and keeps them as dead letters."""

    def put(self, rows: pa.RecordBatch, reasons: Sequence[str], fields: Mapping[str, Any]) -> None:
        """Keeps rows, each with its reason. ``fields`` are those of their letters that the sink knows."""


@dataclass(frozen=True)
class WriterContext(SinkContext):
    """What one attempt of one task knows.

    ``attempt_id`` (32 hex digits) is unique in the world: two attempts of a task, a zombie of a dead driver and the
    attempt that replays it all differ. ``base`` is the link of the decision log that the batch was planned on: whatever
    an attempt makes is named by both, so that it is never shared, and so that it is known for garbage once the log has
    moved on (see :class:`Kept`). ``generation`` grows with every start of the query that follows a crash or displaces
    another one; ``plan_id`` is the same for all attempts of one run of a batch: a writer that sees another one than
    before knows that everything decided until then is carried out. ``refused`` takes rows that can't be written, if
    dead letters are kept.

    ``sequence`` never decreases over the life of a query (see :class:`PreparedCommit`): numbers made from it continue
    after a restart. ``write_timestamp_us`` (microseconds since 1970, for a :class:`SupportsWriteTimestamps`) is
    greater than that of every earlier batch and of every earlier run of this one, by at least
    :data:`TIMESTAMPS_PER_RUN`. ``writer_index`` is -1 for a roller on the driver.
    """

    batch_id: int = 0
    writer_index: int = 0
    attempt_id: str = ""
    base: int = 0
    generation: int = 0
    sequence: int = 0
    plan_id: str = ""
    write_timestamp_us: int = 0
    refused: RefusedRows | None = field(default=None, compare=False)

    def refuse(
        self,
        batch: pa.RecordBatch,
        reasons: Mapping[int, str],
        fields_of: Callable[[pa.RecordBatch], Mapping[str, Any]] = lambda rows: {},
    ) -> pa.RecordBatch:
        """Returns ``batch`` without the rows that can't be written: those in ``reasons``, by number, which become dead
        letters.

        A writer calls it at any time until it has flushed or prepared its commit; what is found out later can't become
        a letter any more, since its batch may be decided. ``fields_of`` returns what the sink knows of the letters'
        fields (see :data:`penstock.dead_letters.LETTER_SCHEMA`): an array each, or one value for all; ``value`` is the
        row as JSON unless it is among them. Raises BadDataError, about the first, if no dead letters are kept.
        """
        if not reasons:
            return batch
        numbers = sorted(reasons)
        if self.refused is None:
            more = f", and {len(numbers) - 1} more in this batch" if len(numbers) > 1 else ""
            raise BadDataError(f"{reasons[numbers[0]]}{more}")
        refused = pa.array(numbers, pa.int64())
        rows = batch.take(refused)
        self.metrics.add("bad_rows", len(numbers))
        self.refused.put(rows, [reasons[number] for number in numbers], fields_of(rows))
        return batch.filter(pc.invert(pc.is_in(pa.array(range(batch.num_rows), pa.int64()), refused)))


@dataclass
class PreparedCommit(Generic[CommittableT, StateT]):
    """What a writer leaves behind: committables to publish, state to carry on, and how many sequence numbers it used.

    Everything in it is durable but invisible when it is returned. ``states`` are independent pieces of state (an open
    part file, say); each lives on, batch after batch, until a :class:`StateRoller` consumes it.
    """

    committables: list[CommittableT] = field(default_factory=list)
    states: list[StateT] = field(default_factory=list)
    sequences_used: int = 0


@dataclass
class StateReplacement(Generic[CommittableT, StateT]):
    """Some pieces of state, ``consumed`` (indexes into the given list), and what replaces them.

    The replacement must stand for exactly the same rows. If the decision finds that one of the consumed pieces has
    meanwhile been consumed by someone else, the whole of it is aborted and nothing happened.
    """

    consumed: list[int]
    committables: list[CommittableT] = field(default_factory=list)
    states: list[StateT] = field(default_factory=list)
    sequences_used: int = 0


class SinkWriter(ABC):
    """Writes the rows of one attempt of one task of one batch. Lives in the task, single thread, is used once."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Takes rows; may send them at once or later. Schema: ``context.schema``. Memory bounded; says by what."""

    @abstractmethod
    def flush(self) -> None:
        """Returns when everything written is durable in the system. Called once, after the last :meth:`write`."""

    def close(self) -> None:  # noqa: B027
        """Frees resources; called once. After an error, without :meth:`flush`: must not wait for what is in flight."""


class CommittingSinkWriter(SinkWriter, Generic[CommittableT, StateT]):
    """Writes rows where no reader sees them, and leaves what it takes to publish them."""

    def flush(self) -> None:
        """Sends what is buffered. Called once, before :meth:`prepare_commit`. Does nothing by default."""

    @abstractmethod
    def prepare_commit(self) -> PreparedCommit[CommittableT, StateT]:
        """Returns what a commit needs. Everything written is durable, and still invisible, on return. Called once."""

    @abstractmethod
    def abort(self) -> None:
        """Throws away what was written, after an error in any other method but :meth:`close`. Must not raise."""

    def close(self) -> None:
        """Frees resources; called once, at the end. Must not undo what was prepared."""


class StateRoller(ABC, Generic[CommittableT, StateT]):
    """Looks after carried state: in tasks while the query runs, on the driver while it is idle or when it is finished.

    Single thread, used once. The same rules as for a writer hold: what it makes is named by its own ``attempt_id``,
    durable and invisible.
    """

    @abstractmethod
    def roll(self, states: Sequence[StateT], *, finish: bool) -> list[StateReplacement[CommittableT, StateT]]:
        """Decides for each piece of ``states`` whether it is due. With ``finish`` everything is.

        Pieces that no returned :class:`StateReplacement` consumes are carried on as they are. Must not change anything
        that the given states point to: their replacement may be aborted.
        """

    @abstractmethod
    def abort(self) -> None:
        """Throws away what :meth:`roll` made, after it raised. Must not raise."""

    def close(self) -> None:
        """Frees resources."""


class Found(Enum):
    """The outcome of one committable."""

    OPEN = "open"  #: it can be published
    COMMITTED = "committed"  #: it is published, even if a reader has read and removed it since
    LOST = "lost"  #: it was never published and never will be (timed out, fenced, sealed, deleted)


@dataclass(frozen=True)
class Kept(Generic[CommittableT, StateT]):
    """What is no garbage. Whatever a query has made for a ``base`` below this one, and that is not named here, is.

    ``generation`` is for what is named by that instead, and is removed by a name that later batches use again:
    everything of generations below this one that is not named is garbage.
    """

    base: int
    generation: int
    committables: Sequence[CommittableT] = ()
    states: Sequence[StateT] = ()


class Committer(ABC, Generic[CommittableT, StateT]):
    """Publishes what was decided. Driver only, single thread. Does nothing on its own: the protocol says when.

    A failure that may pass is raised as :class:`penstock.errors.RetriableError` (or an ``OSError``). A call that failed
    may take effect later, when another process has gone on; and a process that slept may repeat any call of it. So:

    - what is published stays so, whatever process publishes, seals or discards it after that;
    - what is sealed or discarded can't be published any more, not even by a call that was in flight.
    """

    #: Whether the first committable of a batch is published before the others, by a call of its own, and sealed before
    #: them. Then a process that publishes a batch and one that gives it up can't each succeed in part. ``False`` where
    #: only the owner of the checkpoint publishes.
    first_decides: bool = True

    @abstractmethod
    def look(self, committables: Sequence[CommittableT]) -> list[Found]:
        """Returns the outcome of each. Touches nothing.

        One that will not last until it is published may be called lost as long as none of the given ones is committed:
        giving up a batch costs a replay, publishing half of it costs a person.
        """

    @abstractmethod
    def publish(self, committables: Sequence[CommittableT]) -> list[Found]:
        """Publishes each, in order; durable on return. COMMITTED, or LOST for one that can't be published any more.

        What is OPEN after it counts as a failure that may pass: the caller raises RetriableError, and asks again.
        Called for all that was last looked at and is open, also if that is nothing; if nothing of it is published yet
        and ``first_decides``, for the first one and then for the others. Only adds: what a committable replaces stays
        where it is, until :meth:`clear`.
        """

    @abstractmethod
    def seal(self, committables: Sequence[CommittableT]) -> None:
        """Makes it impossible for any process to publish them. One that is published stays so."""

    @abstractmethod
    def discard(self, committables: Sequence[CommittableT], states: Sequence[StateT]) -> None:
        """Throws away what attempts have left that can't be decided any more. Unknown ones are fine."""

    def are_there(self, states: Sequence[StateT]) -> list[bool]:
        """Returns whether what carried state stands for is still where it was left. Touches nothing."""
        return [True for _ in states]

    def clear(self, kept: Kept[CommittableT, StateT]) -> int:
        """Removes the garbage of *this* query. Returns how many things were removed.

        Called by the owner of the decision log, when nothing is pending and none of the query's tasks runs. The
        garbage of a moment is garbage forever, so that a late call does no harm. An error says that one may come, and
        must be raised: no batch uses the generation after that.
        """
        return 0

    def leave(self) -> None:
        """Removes what is kept for batches to come (directories). After a batch write, whose query has no other."""

    def close(self) -> None:
        """Frees resources."""


class Sink(ABC):
    """What every sink has. One that is only this delivers at least once: a batch that is run again is written again.

    Built on the driver, pickled to the tasks. Holds configuration only: no connection, no open file. Options have been
    validated when it is built. Its writers make rows visible as they like.
    """

    def validate_schema(self, schema: pa.Schema) -> None:  # noqa: B027
        """Raises BadConfigurationError if rows of ``schema`` can't be written. Driver, before the first batch."""

    def start(self, context: SinkContext) -> Self:
        """Looks at the target system before a batch (access, limits). Returns the sink that committer and tasks get.

        Driver, for every batch: remember what was found. Raises BadConfigurationError if the sink can't work there; a
        RetriableError is tried again for ``retryTimeout``.
        """
        return self

    @abstractmethod
    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Makes a writer for one attempt. Task. A RetriableError is tried again for ``retryTimeout``."""


class TwoPhaseCommitSink(Sink, Generic[CommittableT, StateT]):
    """Delivers exactly once: ties writer, committer and serializer together.

    ``StateT`` is that of :class:`SupportsStateRolling`; ``None`` for a sink that carries nothing from batch to batch.
    """

    @property
    @abstractmethod
    def committable_serializer(self) -> SimpleVersionedSerializer[CommittableT]:
        """Stores committables in the decision log."""

    @property
    def target(self) -> str:
        """Names where rows go (a path, a topic, a table), for a person. May not change while rows are open."""
        return ""

    def batch_log(self, query_id: str) -> CheckpointLocation | None:
        """Returns where a batch write keeps its decision log, below what it writes and hidden from readers.

        ``None``: in the driver's memory. A driver that dies in the middle of publishing then leaves a part visible.
        """
        return None

    @property
    def holds_back_readers(self) -> bool:
        """Whether what an attempt leaves disturbs readers until it is discarded, as an open transaction does.

        Garbage is then cleared after every batch, and after a failed one the driver waits for a moment until the engine
        has ended the other tasks.
        """
        return False

    @abstractmethod
    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[CommittableT, StateT]:
        """Makes a writer for one attempt. Task. A RetriableError is tried again for ``retryTimeout``."""

    @abstractmethod
    def create_committer(self, context: SinkContext) -> Committer[CommittableT, StateT]:
        """Makes a committer. Driver."""

    def describe_committable(self, committable: CommittableT) -> str:
        """Returns a committable in words, for ``penstock inspect``."""
        return repr(committable)


class SupportsStateRolling(ABC, Generic[CommittableT, StateT]):
    """For a :class:`TwoPhaseCommitSink` that carries state from batch to batch, as open part files are."""

    @property
    @abstractmethod
    def state_serializer(self) -> SimpleVersionedSerializer[StateT]:
        """Stores pieces of state in the decision log."""

    @abstractmethod
    def create_roller(self, context: WriterContext) -> StateRoller[CommittableT, StateT]:
        """Makes a roller for carried state. Task or driver."""

    def owner_key(self, state: StateT) -> str:
        """States with the same key are rolled together, by one task. Default: all by one."""
        return ""

    def describe_state(self, state: StateT) -> str:
        """Returns a piece of state in words, for ``penstock inspect``."""
        return repr(state)


class SupportsWriteTimestamps:
    """For a :class:`TwoPhaseCommitSink` whose system keeps the row with the greatest write timestamp.

    Each run of a batch gets a :attr:`WriterContext.write_timestamp_us` greater than that of every run before, which the
    decision log makes durable before the first row is written.
    """


class SupportsOtherRows(ABC):
    """For a :class:`Sink` that can take the rows of another sink of its kind into its own commits."""

    @abstractmethod
    def with_rows_of(self, other: Sink) -> Sink | None:
        """Returns a sink that also takes the rows of ``other``; ``None`` if the two need commits of their own.

        Its writers have a method ``write_other``, which takes a batch of the other's rows as ``write`` does of its own.
        """


class SupportsCompleteMode:
    """For a :class:`Sink` that makes sense with output mode *complete*, where each batch is the whole result again."""


def state_serializer_of(sink: TwoPhaseCommitSink[Any, StateT]) -> SimpleVersionedSerializer[StateT]:
    """Stores what ``sink`` carries from batch to batch; for one that carries nothing it takes nothing else."""
    return sink.state_serializer if isinstance(sink, SupportsStateRolling) else NOTHING_SERIALIZER


def describe_state(sink: TwoPhaseCommitSink[Any, StateT], state: StateT) -> str:
    """Returns a piece of ``sink``'s state in words."""
    return sink.describe_state(state) if isinstance(sink, SupportsStateRolling) else repr(state)
