"""Sink contracts. No engine is imported here; ``penstock.spark`` turns a sink into a Spark data source writer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from penstock.metrics import Metrics
from penstock.serialization import JsonSerializer, SimpleVersionedSerializer
from penstock.storage import Storage

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "TIMESTAMPS_PER_RUN",
    "CheckpointLocation",
    "CommitOutcome",
    "Committer",
    "Prepared",
    "Rolled",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "StateRoller",
    "TwoPhaseCommitSink",
    "WriterContext",
]

CommittableT = TypeVar("CommittableT")
StateT = TypeVar("StateT")


#: How many timestamps, one microsecond apart, an attempt may use: 10 ms of them.
TIMESTAMPS_PER_RUN = 10_000


#: The state serializer of sinks that carry nothing from batch to batch.
NOTHING_SERIALIZER: JsonSerializer[None] = JsonSerializer(1, lambda nothing: {}, lambda version, fields: None)


@dataclass(frozen=True)
class CheckpointLocation:
    """A query's checkpoint: ``path`` in ``storage``. Reachable from the driver and from tasks. Picklable."""

    storage: Storage
    path: str


@dataclass(frozen=True)
class SinkContext:
    """What every part of a sink knows about its query.

    ``query_id`` never changes over restarts of a query and is unique among queries: everything that a sink leaves in
    the target system carries it, so that clean-up never touches another query's. ``schema`` is that of the rows.
    ``checkpoint`` is the query's own; ``None`` for a batch write, which has none.
    """

    query_id: str
    schema: pa.Schema
    metrics: Metrics = field(default_factory=Metrics, compare=False)
    checkpoint: CheckpointLocation | None = None


@dataclass(frozen=True)
class WriterContext(SinkContext):
    """What one attempt of one task knows.

    ``attempt_id`` (32 hex digits) is unique in the world: two attempts of a task, a zombie of a dead driver and the
    attempt that replays it all differ, so anything named by it is never shared. ``plan_id`` is the same for all
    attempts of one run of a batch: a writer that sees another one than before knows that everything decided until then
    is carried out. ``sequence`` never goes back over the life of a query (see :class:`Prepared`): numbers made from it
    go on after a restart. ``write_timestamp_us`` (microseconds since 1970, for sinks that want it) is greater than that
    of every earlier batch and of every earlier run of this one, by at least :data:`TIMESTAMPS_PER_RUN`.
    """

    batch_id: int = 0
    writer_index: int = 0
    attempt_id: str = ""
    sequence: int = 0
    plan_id: str = ""
    write_timestamp_us: int = 0


@dataclass
class Prepared(Generic[CommittableT, StateT]):
    """What a writer leaves behind: committables to publish, state to carry on, and how many sequence numbers it used.

    Everything in it is durable but invisible when it is returned. ``states`` are independent pieces of state (an open
    part file, say); each lives on, batch after batch, until a :class:`StateRoller` consumes it.
    """

    committables: list[CommittableT] = field(default_factory=list)
    states: list[StateT] = field(default_factory=list)
    sequences_used: int = 0


@dataclass
class Rolled(Generic[CommittableT, StateT]):
    """What became of some pieces of state: ``consumed`` (indexes into the given list) were replaced by the rest.

    The replacement must stand for exactly the same rows. If the decision finds that one of the consumed pieces has
    meanwhile been consumed by someone else, the whole of it is aborted and nothing happened.
    """

    consumed: list[int]
    committables: list[CommittableT] = field(default_factory=list)
    states: list[StateT] = field(default_factory=list)
    sequences_used: int = 0


class SinkWriter(ABC, Generic[CommittableT, StateT]):
    """One attempt of one task of one batch. Lives in the task, single thread, is used once."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Writes rows where no reader sees them. Schema: ``context.schema``. Memory bounded; says by what."""

    @abstractmethod
    def prepare_commit(self) -> Prepared[CommittableT, StateT]:
        """Flushes; everything written is durable afterwards. Called once, after the last :meth:`write`."""

    @abstractmethod
    def abort(self) -> None:
        """Throws away what was written. After an error in :meth:`write` or :meth:`prepare_commit`. Must not raise."""

    def close(self) -> None:
        """Frees resources; called after either of the two. Must not undo what was prepared."""


class StateRoller(ABC, Generic[CommittableT, StateT]):
    """Looks after carried state: in tasks while the query runs, on the driver while it is idle or when it is finished.

    Single thread, used once. The same rules as for a writer hold: what it makes is named by its own ``attempt_id``,
    durable and invisible.
    """

    @abstractmethod
    def roll(self, states: Sequence[StateT], *, finish: bool) -> list[Rolled[CommittableT, StateT]]:
        """Decides for each piece of ``states`` whether it is due. With ``finish`` everything is.

        Pieces that no returned :class:`Rolled` consumes are carried on as they are. Must not change anything that the
        given states point to: their replacement may be aborted.
        """

    @abstractmethod
    def abort(self) -> None:
        """Throws away what :meth:`roll` made, after it raised. Must not raise."""

    def close(self) -> None:
        """Frees resources."""


class CommitOutcome(Enum):
    """What :meth:`Committer.commit` found for one committable."""

    COMMITTED = "committed"  #: published by this call
    ALREADY_COMMITTED = "already committed"  #: an earlier call had published it; nothing was done
    LOST = "lost"  #: it was never published and can't be any more (timed out, fenced, deleted)


class Committer(ABC, Generic[CommittableT, StateT]):
    """Publishes what was decided. Driver only, single thread.

    A failure that may pass is raised as :class:`penstock.errors.RetriableError` (or an ``OSError``): the decision
    stands and is carried out again later. Lost is an outcome, not an error.
    """

    @abstractmethod
    def commit(self, committables: Sequence[CommittableT]) -> list[CommitOutcome]:
        """Publishes each committable, in order; one outcome each. Idempotent, also after a crash in the middle."""

    @abstractmethod
    def abort(self, committables: Sequence[CommittableT], states: Sequence[StateT]) -> None:
        """Throws away what undecided attempts left. Idempotent; unknown ones are fine."""

    def clean_up(self, live_states: Sequence[StateT], *, before_batch: int) -> int:
        """Removes what crashed runs, losing attempts and consumed states of *this* query left behind.

        ``live_states`` are kept, and whatever belongs to a batch numbered ``before_batch`` or higher. Called only
        when no decision is pending. Returns how many things were removed.
        """
        return 0

    def leave(self) -> None:
        """Removes what is kept for batches to come (directories). After a batch write, whose query has no other."""

    def abort_lingering(self) -> int:
        """Throws away at once whatever of *this* query is not published. Returns how many things it was.

        Called while none of the query's tasks runs and no decision is pending: before a batch (what a crashed run left)
        and after one (what losing attempts left). For what disturbs others by its mere being there, such as an open
        transaction that readers wait for; the rest can wait for :meth:`clean_up`.
        """
        return 0

    def close(self) -> None:
        """Frees resources."""


class Sink(ABC, Generic[CommittableT, StateT]):
    """What every sink has. One that is only this delivers at least once: a batch that is run again is written again.

    Built on the driver, pickled to the tasks. Holds configuration only: no connection, no open file. Options have been
    validated when it is built. Its writers make rows visible as they like; what :meth:`SinkWriter.prepare_commit`
    returns must be empty.
    """

    @property
    def takes_complete_results(self) -> bool:
        """Whether the sink makes sense with output mode *complete*, where each batch is the whole result anew."""
        return False

    def validate_schema(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError if rows of ``schema`` can't be written. Driver, before the first batch."""

    def start(self, context: SinkContext) -> Self:
        """Looks at the target system before a batch (access, limits). Returns the sink that committer and tasks get.

        Driver, for every batch: remember what was found. Raises BadConfigurationError if the sink can't work there.
        """
        return self

    @abstractmethod
    def create_writer(self, context: WriterContext) -> SinkWriter[CommittableT, StateT]:
        """A writer for one attempt. Task."""


class TwoPhaseCommitSink(Sink[CommittableT, StateT]):
    """Exactly once: ties writer, roller, committer and serializers together."""

    @property
    @abstractmethod
    def committable_serializer(self) -> SimpleVersionedSerializer[CommittableT]:
        """For the decision log."""

    @property
    @abstractmethod
    def state_serializer(self) -> SimpleVersionedSerializer[StateT]:
        """For the decision log."""

    @property
    def plan_is_deterministic(self) -> bool:
        """Whether a replayed batch gives every writer index the same rows, so that one writer's share can be redone."""
        return False

    @property
    def wants_write_timestamps(self) -> bool:
        """Whether each run of a batch needs a ``write_timestamp_us``: one more durable note for every batch."""
        return False

    @property
    def holds_back_readers(self) -> bool:
        """Whether what an attempt leaves disturbs readers until it is aborted, as an open transaction does.

        After a failed batch the driver then waits for a moment until the engine has ended the other tasks.
        """
        return False

    @abstractmethod
    def create_committer(self, context: SinkContext) -> Committer[CommittableT, StateT]:
        """A committer. Driver."""

    def create_roller(self, context: WriterContext) -> StateRoller[CommittableT, StateT] | None:
        """A roller for carried state; ``None`` if the sink carries none. Task or driver."""
        return None

    def owner_key(self, state: StateT) -> str:
        """States with the same key are rolled together, by one task. Default: all by one."""
        return ""

    def describe_state(self, state: StateT) -> str:
        """A piece of state in words, for ``penstock inspect``."""
        return repr(state)

    def describe_committable(self, committable: CommittableT) -> str:
        """A committable in words, for ``penstock inspect``."""
        return repr(committable)
