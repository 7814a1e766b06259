"""A two-phase sink in memory that does what a test says, and notes what it is asked; with a clock and ids to match."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from penstock._commit import StateItem, TaskOutput
from penstock.serialization import JsonSerializer, Versioned
from penstock.sink import (
    Committer,
    CommittingSinkWriter,
    Found,
    Kept,
    PreparedCommit,
    SinkContext,
    StateReplacement,
    StateRoller,
    SupportsStateRolling,
    SupportsWriteTimestamps,
    TwoPhaseCommitSink,
    WriterContext,
)
from penstock.storage import MemoryStorage
from penstock.system import System, use

__all__ = [
    "TEXT",
    "PlainScriptedSink",
    "ScriptedSink",
    "ScriptedStorage",
    "ScriptedSystem",
    "StampedScriptedSink",
    "copied",
    "item",
    "output",
    "scripted_system",
]

TEXT: JsonSerializer[str] = JsonSerializer(1, lambda value: value, lambda version, value: value)
ValueT = TypeVar("ValueT")


def copied(value: ValueT) -> ValueT:
    """As it comes from another process: equal, and nothing of it the same object."""
    made: ValueT = pickle.loads(pickle.dumps(value))
    return made


def item(name: str) -> StateItem:
    """Carried state whose id and payload are ``name``."""
    return StateItem(name, TEXT.pack(name))


def output(
    writer: int = 0,
    committables: Sequence[str] = (),
    states: Sequence[str] = (),
    consumed: Sequence[str] = (),
    used: int = 0,
) -> TaskOutput:
    """What an attempt contributed, with names for its contents."""
    packed: tuple[Versioned, ...] = tuple(TEXT.pack(name) for name in committables)
    return TaskOutput(writer, f"attempt {writer}", tuple(consumed), packed, tuple(item(name) for name in states), used)


@dataclass
class PlainScriptedSink(TwoPhaseCommitSink[str, str]):
    """Carries nothing. Committables are names. ``found`` says what became of one: open, unless told otherwise.

    ``asked`` has a line for each call. ``on`` has what happens inside of a call of that name, which may raise.
    """

    target: str = "/out"
    holds_back_readers: bool = False
    prepared: PreparedCommit[str, str] = field(default_factory=PreparedCommit)
    found: dict[str, Found] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    forgets_the_last: bool = False
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    on: dict[str, Callable[[], object]] = field(default_factory=dict)
    committable_serializer = TEXT

    def ask(self, what: str, *arguments: Any) -> None:
        """Notes a call, and lets happen what happens inside of it."""
        self.asked.append((what, *arguments))
        if what in self.on:
            self.on[what]()

    def all_asked(self, what: str) -> list[tuple[Any, ...]]:
        """The arguments of every call of that name."""
        return [arguments for name, *arguments in self.asked if name == what]  # type: ignore[misc]

    def answers(self, every: list[ValueT]) -> list[ValueT]:
        """``every``, or one too few."""
        return every[:-1] if self.forgets_the_last else every

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, str]:
        """See the base class."""
        return _Writer(self, context)

    def create_committer(self, context: SinkContext) -> Committer[str, str]:
        """See the base class."""
        return _Committer(self, context)


@dataclass
class ScriptedSink(PlainScriptedSink, SupportsStateRolling[str, str]):
    """Carries states, which are names too. ``rolled`` is what its roller does; ``None``: nothing, without a note."""

    rolled: list[StateReplacement[str, str]] | None = None
    state_serializer = TEXT

    def owner_key(self, state: str) -> str:
        """The first letter."""
        return state[0]

    def describe_state(self, state: str) -> str:
        """Its name."""
        return f"state {state}"

    def create_roller(self, context: WriterContext) -> StateRoller[str, str]:
        """Makes one that rolls what ``rolled`` says."""
        return _IdleRoller() if self.rolled is None else _Roller(self, context, self.rolled)


class StampedScriptedSink(ScriptedSink, SupportsWriteTimestamps):
    """Wants a write timestamp for each run of a batch."""


class _Writer(CommittingSinkWriter[str, str]):
    def __init__(self, sink: PlainScriptedSink, context: WriterContext) -> None:
        self._sink = sink
        sink.ask("writer", context)

    def write(self, batch: pa.RecordBatch) -> None:
        self._sink.ask("write", batch)

    def prepare_commit(self) -> PreparedCommit[str, str]:
        self._sink.ask("prepare")
        return self._sink.prepared

    def abort(self) -> None:
        self._sink.ask("abort writer")

    def close(self) -> None:
        self._sink.ask("close writer")


class _IdleRoller(StateRoller[str, str]):
    def roll(self, states: Sequence[str], *, finish: bool) -> list[StateReplacement[str, str]]:
        return []

    def abort(self) -> None:
        """Made nothing."""


class _Roller(StateRoller[str, str]):
    def __init__(
        self, sink: PlainScriptedSink, context: WriterContext, rolled: list[StateReplacement[str, str]]
    ) -> None:
        self._sink = sink
        self._rolled = rolled
        sink.ask("roller", context)

    def roll(self, states: Sequence[str], *, finish: bool) -> list[StateReplacement[str, str]]:
        self._sink.ask("roll", list(states), finish)
        return self._rolled

    def abort(self) -> None:
        self._sink.ask("abort roller")

    def close(self) -> None:
        self._sink.ask("close roller")


class _Committer(Committer[str, str]):
    def __init__(self, sink: PlainScriptedSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        sink.ask("committer")

    def look(self, committables: Sequence[str]) -> list[Found]:
        self._sink.ask("look", list(committables))
        return self._sink.answers([self._sink.found.get(one, Found.OPEN) for one in committables])

    def publish(self, committables: Sequence[str]) -> list[Found]:
        self._context.check_owner()
        self._sink.ask("publish", list(committables))
        for one in committables:
            self._sink.found.setdefault(one, Found.COMMITTED)
        return self._sink.answers([self._sink.found[one] for one in committables])

    def seal(self, committables: Sequence[str]) -> None:
        self._sink.ask("seal", list(committables))

    def discard(self, committables: Sequence[str], states: Sequence[str]) -> None:
        self._sink.ask("discard", list(committables), list(states))

    def are_there(self, states: Sequence[str]) -> list[bool]:
        self._sink.ask("are there", list(states))
        return self._sink.answers([state not in self._sink.gone for state in states])

    def clear(self, kept: Kept[str, str]) -> int:
        self._sink.ask("clear", kept)
        return 0

    def close(self) -> None:
        self._sink.ask("close")


class ScriptedStorage(MemoryStorage):
    """Notes calls, and lets happen what ``before`` has for a name, once for each time it is there."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Any, ...]] = []
        self.before: dict[str, list[Callable[[], object]]] = {}

    def _ask(self, what: str, *arguments: Any) -> None:
        self.asked.append((what, *arguments))
        if self.before.get(what):
            self.before[what].pop(0)()

    def read(self, path: str) -> bytes:
        """See the base class."""
        self._ask("read", path)
        return super().read(path)

    def list_names(self, directory: str) -> list[str]:
        """See the base class."""
        self._ask("list", directory)
        return super().list_names(directory)

    def create(self, path: str, data: bytes) -> bool:
        """See the base class."""
        self._ask("create", path)
        return super().create(path, data)

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """See the base class."""
        self._ask("put", path, durable)
        super().put(path, data, durable=durable)

    def delete(self, paths: Any) -> None:
        """See the base class."""
        paths = list(paths)
        self._ask("delete", paths)
        super().delete(paths)


class ScriptedSystem(System):
    """Time that passes only by sleeping; ids that count."""

    def __init__(self) -> None:
        self.us = 1_800_000_000_123_456
        self.slept_s = 0.0
        self.ids = 0
        #: The most that something was done with.
        self.threads = 1

    def now_us(self) -> int:
        """See the base class."""
        return self.us

    def monotonic(self) -> float:
        """See the base class."""
        return self.slept_s

    def sleep(self, seconds: float) -> None:
        """See the base class."""
        self.slept_s += seconds

    def new_id(self) -> str:
        """See the base class."""
        self.ids += 1
        return f"id {self.ids}"

    def executor(self, threads: int, name: str) -> Executor:
        """One piece of work after the other, in the order of their submission."""
        self.threads = max(self.threads, threads)
        return _InOrder()


class _InOrder(Executor):
    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


@contextmanager
def scripted_system() -> Iterator[ScriptedSystem]:
    """In the place of the real one."""
    made = ScriptedSystem()
    use(made)
    try:
        yield made
    finally:
        use(None)
