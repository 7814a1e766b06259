"""Faults, put around an author's objects. Nothing in production code knows of them.

A :class:`Fuse` counts the steps that it gets, and ends the "process" at one of them: it raises :class:`Crash`, which
nothing below catches, and what the step was about to do is not done. What the process held in memory is then thrown
away, as after SIGKILL; what it had made durable stays.
"""

from __future__ import annotations

import functools
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.serialization import SimpleVersionedSerializer, Versioned
from penstock.sink import (
    Committer,
    CommittingSinkWriter,
    Found,
    Kept,
    PreparedCommit,
    Sink,
    SinkContext,
    SinkWriter,
    StateReplacement,
    StateRoller,
    SupportsCompleteMode,
    SupportsMembers,
    SupportsStateRolling,
    SupportsWriteTimestamps,
    TwoPhaseCommitSink,
    WriterContext,
)
from penstock.source import (
    ColumnFilter,
    EnumeratorContext,
    ReaderContext,
    ReadLimits,
    RecordEmitter,
    RecordsBySplits,
    Source,
    SplitEnumerator,
    SplitReader,
    SupportsExplain,
    SupportsFilterPushDown,
    SupportsOffsetAdoption,
)
from penstock.storage import ABANDONED_AFTER_S, Storage
from penstock.testing._calls import calling, progress

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Crash",
    "FaultyPlainSink",
    "FaultySink",
    "FaultySource",
    "FaultyStorage",
    "FaultyWriter",
    "Fuse",
    "Steps",
    "faulty_sink",
    "faulty_source",
    "wrapped",
]


ResultT = TypeVar("ResultT")


class Crash(BaseException):
    """Stands for a process that ends on the spot."""


class Steps(ABC):
    """Gets every step, and may end the process there by an exception that is no Exception."""

    @abstractmethod
    def step(self, what: str) -> None:
        """Something is about to be done, or was just done."""

    def do(self, what: str, call: Callable[[], ResultT]) -> ResultT:
        """Does it, with a step before and one after."""
        self.step(f"before {what}")
        result = call()
        self.step(f"after {what}")
        return result


class Fuse(Steps):
    """Blows at the ``at``-th step (from 0); with ``None`` it only counts them, in ``steps``."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.steps: list[str] = []

    def step(self, what: str) -> None:
        """Something is about to be done, or was just done. Raises Crash if it is its turn."""
        progress()
        self.steps.append(what)
        if self.at is not None and len(self.steps) == self.at + 1:
            raise Crash(what)

    def do(self, what: str, call: Callable[[], ResultT]) -> ResultT:
        with calling(what):
            return super().do(what, call)


class FaultyStorage(Storage):
    """The storage of decisions, with a step before and after every write, and errors on request.

    ``broken`` is raised by every write while it is set: a full disk (``OSError(ENOSPC)``), a read-only one
    (``PermissionError``). The files are those of ``inner``.
    """

    def __init__(self, inner: Storage, fuse: Steps) -> None:
        self._inner = inner
        self._fuse = fuse
        self.broken: Exception | None = None

    @property
    def fs(self) -> pafs.FileSystem:
        return self._inner.fs

    def is_away(self, directory: str) -> bool:
        return self._inner.is_away(directory)

    def url(self, path: str) -> str:
        return self._inner.url(path)

    def _write(self, what: str, path: str, data: bytes) -> Any:
        def write() -> Any:
            if self.broken is not None:
                raise self.broken
            return getattr(self._inner, what)(path, data)

        return self._fuse.do(f"{what} {path.rsplit('/', 1)[-1]}", write)

    def create(self, path: str, data: bytes) -> bool:
        return bool(self._write("create", path, data))

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._write("put", path, data)

    def read(self, path: str) -> bytes:
        return self._inner.read(path)

    def size(self, path: str) -> int | None:
        return self._inner.size(path)

    def list_names(self, directory: str) -> list[str]:
        return self._inner.list_names(directory)

    def delete(self, paths: Iterable[str]) -> None:
        self._inner.delete(paths)

    def sweep(self, directory: str, older_than_s: float = ABANDONED_AFTER_S) -> int:
        return self._inner.sweep(directory, older_than_s)

    def make_durable(self, path: str) -> None:
        self._inner.make_durable(path)


class _Wrapper:
    """What is around an author's sink or source."""

    def __init__(self, inner: Any, fuse: Steps) -> None:
        self._inner = inner
        self._fuse = fuse

    def __reduce__(self) -> Any:
        """Pickles the wrapper and what it wraps, since the class may be generated: see :func:`wrapped`."""
        return wrapped, (_wrapper_of(self), self._inner, self._fuse)


class FaultyPlainSink(_Wrapper, Sink):
    """An author's sink whose writers report to ``fuse`` what they do. Otherwise it is that sink."""

    _inner: Sink

    def validate_schema(self, schema: pa.Schema) -> None:
        self._inner.validate_schema(schema)

    def start(self, context: SinkContext) -> Self:
        return type(self)(self._inner.start(context), self._fuse)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        with calling("create_writer"):
            return _FaultyPlainWriter(self._inner.create_writer(context), self._fuse)


class FaultySink(FaultyPlainSink, TwoPhaseCommitSink[Any, Any]):
    """The same for a sink that commits, and its committers."""

    _inner: TwoPhaseCommitSink[Any, Any]

    def __init__(self, inner: TwoPhaseCommitSink[Any, Any], fuse: Steps) -> None:
        super().__init__(inner, fuse)

    @property
    def committable_serializer(self) -> SimpleVersionedSerializer[Any]:
        return self._inner.committable_serializer

    @property
    def target(self) -> str:
        return self._inner.target

    @property
    def holds_back_readers(self) -> bool:
        return self._inner.holds_back_readers

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[Any, Any]:
        with calling("create_writer"):
            return FaultyWriter(self._inner.create_writer(context), self._fuse)

    def create_committer(self, context: SinkContext) -> Committer[Any, Any]:
        return _FaultyCommitter(self._inner.create_committer(context), self._fuse)

    def describe_committable(self, committable: Any) -> str:
        return self._inner.describe_committable(committable)


class _FaultyRolling(SupportsStateRolling[Any, Any]):
    _inner: Any
    _fuse: Steps

    @property
    def state_serializer(self) -> SimpleVersionedSerializer[Any]:
        serializer: SimpleVersionedSerializer[Any] = self._inner.state_serializer
        return serializer

    def create_roller(self, context: WriterContext) -> StateRoller[Any, Any]:
        return _FaultyRoller(self._inner.create_roller(context), self._fuse)

    def owner_key(self, state: Any) -> str:
        return str(self._inner.owner_key(state))

    def describe_state(self, state: Any) -> str:
        return str(self._inner.describe_state(state))


class _FaultyMembers(SupportsMembers):
    _inner: Any

    @property
    def targets(self) -> dict[str, str]:
        return dict(self._inner.targets)

    def member_of(self, stored: Versioned) -> str:
        return str(self._inner.member_of(stored))


#: What a sink or a source may be able to do, and the part of a wrapper that forwards it.
_ABILITIES: dict[type, type] = {
    SupportsStateRolling: _FaultyRolling,
    SupportsMembers: _FaultyMembers,
    SupportsWriteTimestamps: SupportsWriteTimestamps,
    SupportsCompleteMode: SupportsCompleteMode,
}
WrapperT = TypeVar("WrapperT")


def wrapped(wrapper: type[WrapperT], inner: Any, fuse: Steps) -> WrapperT:
    """Wraps ``inner`` in a ``wrapper`` that has the abilities of ``inner``. A pickled copy keeps the wrapper."""
    parts = [part for ability, part in _ABILITIES.items() if isinstance(inner, ability)]
    kind: Any = wrapper
    if parts:
        kind = _with_abilities(cast(Hashable, wrapper), *parts)
    made: WrapperT = kind(inner, fuse)
    return made


@functools.cache  # abstract classes remember each class that was ever asked about
def _with_abilities(wrapper: type, *parts: type) -> type:
    return types.new_class(wrapper.__name__, (*parts, wrapper), None, lambda names: names.update(_wrapper=wrapper))


def _wrapper_of(made: Any) -> type:
    """Returns the wrapper that ``made`` was generated from, which can be imported."""
    found: type = getattr(made, "_wrapper", type(made))
    return found


def faulty_sink(sink: Sink, fuse: Steps) -> Sink:
    """Returns ``sink``, whose every step is reported to ``fuse``."""
    if isinstance(sink, TwoPhaseCommitSink):
        return wrapped(FaultySink, sink, fuse)
    return wrapped(FaultyPlainSink, sink, fuse)


class _FaultyPlainWriter(SinkWriter):
    """An author's writer, which a process that has crashed does not close."""

    def __init__(self, inner: SinkWriter, fuse: Steps) -> None:
        self._inner = inner
        self._fuse = fuse
        self._crashed = False

    def _do(self, what: str, call: Callable[[], ResultT]) -> ResultT:
        try:
            return self._fuse.do(what, call)
        except Exception:
            raise
        except BaseException:
            self._crashed = True
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        self._do("write", lambda: self._inner.write(batch))

    def flush(self) -> None:
        self._do("flush", self._inner.flush)

    def close(self) -> None:
        if not self._crashed:  # a dead process tidies nothing up
            with calling("close of the writer"):
                self._inner.close()


class FaultyWriter(_FaultyPlainWriter, CommittingSinkWriter[Any, Any]):
    """The same for a writer whose rows are committed."""

    _inner: CommittingSinkWriter[Any, Any]

    def __init__(self, inner: CommittingSinkWriter[Any, Any], fuse: Steps) -> None:
        super().__init__(inner, fuse)

    def prepare_commit(self) -> PreparedCommit[Any, Any]:
        return self._do("prepare_commit", self._inner.prepare_commit)

    def abort(self) -> None:
        if not self._crashed:
            self._do("writer abort", self._inner.abort)


class _FaultyRoller(StateRoller[Any, Any]):
    def __init__(self, inner: StateRoller[Any, Any], fuse: Steps) -> None:
        self._inner = inner
        self._fuse = fuse

    def roll(self, states: Sequence[Any], *, finish: bool) -> list[StateReplacement[Any, Any]]:
        return self._fuse.do("roll", lambda: self._inner.roll(states, finish=finish))

    def abort(self) -> None:
        self._inner.abort()

    def close(self) -> None:
        self._inner.close()


class _FaultyCommitter(Committer[Any, Any]):
    def __init__(self, inner: Committer[Any, Any], fuse: Steps) -> None:
        self._inner = inner
        self._fuse = fuse
        self.first_decides = inner.first_decides

    def look(self, committables: Sequence[Any]) -> list[Found]:
        return self._fuse.do("look", lambda: self._inner.look(committables))

    def publish(self, committables: Sequence[Any]) -> list[Found]:
        """Publishes the first half, then the rest, so that it can also stop half way."""
        half = len(committables) // 2

        def publish() -> list[Found]:
            first = self._inner.publish(committables[:half]) if half else []
            if half:
                self._fuse.step("half way through publish")
            return [*first, *self._inner.publish(committables[half:])]

        return self._fuse.do("publish", publish)

    def seal(self, committables: Sequence[Any]) -> None:
        self._fuse.do("seal", lambda: self._inner.seal(committables))

    def discard(self, committables: Sequence[Any], states: Sequence[Any]) -> None:
        self._fuse.do("discard", lambda: self._inner.discard(committables, states))

    def are_there(self, states: Sequence[Any]) -> list[bool]:
        return self._fuse.do("are_there", lambda: self._inner.are_there(states))

    def clear(self, kept: Kept[Any, Any]) -> int:
        return self._fuse.do("clear", lambda: self._inner.clear(kept))

    def leave(self) -> None:
        self._inner.leave()

    def close(self) -> None:
        self._inner.close()


class FaultySource(_Wrapper, Source[Any, Any]):
    """An author's source whose readers tell ``fuse`` what they are doing. Otherwise it is that source."""

    _inner: Source[Any, Any]

    @property
    def split_serializer(self) -> SimpleVersionedSerializer[Any]:
        return self._inner.split_serializer

    @property
    def enumerator_serializer(self) -> SimpleVersionedSerializer[Any]:
        return self._inner.enumerator_serializer

    def fixed_schema(self) -> pa.Schema | None:
        return self._inner.fixed_schema()

    @property
    def remembers_schema(self) -> bool:
        return self._inner.remembers_schema

    def infer_schema(self) -> pa.Schema:
        return self._inner.infer_schema()

    def validate_schema(self, schema: pa.Schema) -> None:
        self._inner.validate_schema(schema)

    def read_limits(self) -> ReadLimits:
        return self._inner.read_limits()

    def target_task_bytes(self, parallelism: int, total_bytes: int) -> int:
        return self._inner.target_task_bytes(parallelism, total_bytes)

    def assign_splits(self, splits: Sequence[Any], parallelism: int) -> list[list[Any]]:
        return self._inner.assign_splits(splits, parallelism)

    def create_enumerator(self, context: EnumeratorContext, checkpoint: Any) -> SplitEnumerator[Any, Any]:
        return self._inner.create_enumerator(context, checkpoint)

    def list_splits(self, context: EnumeratorContext) -> Iterator[Any]:
        return self._inner.list_splits(context)

    def create_reader(self, context: ReaderContext) -> SplitReader[Any, Any]:
        return _FaultyReader(self._inner.create_reader(context), self._fuse)

    def create_emitter(self, context: ReaderContext) -> RecordEmitter[Any, Any]:
        return self._inner.create_emitter(context)


class _FaultyPushDown(SupportsFilterPushDown):
    _inner: Any
    _fuse: Steps

    def push_filters(self, filters: Sequence[ColumnFilter]) -> tuple[Source[Any, Any], Sequence[ColumnFilter]]:
        source, taken = self._inner.push_filters(filters)
        return faulty_source(source, self._fuse), taken


class _Explaining(SupportsExplain):
    _inner: Any

    def explain(self) -> Sequence[str]:
        lines: Sequence[str] = self._inner.explain()
        return lines


class _Adopting(SupportsOffsetAdoption[Any, Any]):
    _inner: Any

    def adopt_offset(self, value: Mapping[str, Any]) -> Any:
        return self._inner.adopt_offset(value)

    def splits_between(self, start: Any, end: Any) -> list[Any]:
        splits: list[Any] = self._inner.splits_between(start, end)
        return splits


_ABILITIES |= {
    SupportsFilterPushDown: _FaultyPushDown,
    SupportsExplain: _Explaining,
    SupportsOffsetAdoption: _Adopting,
}


def faulty_source(source: Source[Any, Any], fuse: Steps) -> Source[Any, Any]:
    """Returns ``source``, whose readers report their steps to ``fuse``."""
    return wrapped(FaultySource, source, fuse)


class _FaultyReader(SplitReader[Any, Any]):
    def __init__(self, inner: SplitReader[Any, Any], fuse: Steps) -> None:
        self._inner = inner
        self._fuse = fuse

    def handle_splits_changes(self, splits: Sequence[Any]) -> None:
        self._inner.handle_splits_changes(splits)

    def fetch(self) -> RecordsBySplits[Any]:
        return self._fuse.do("fetch", self._inner.fetch)

    def wake_up(self) -> None:
        self._inner.wake_up()

    def close(self) -> None:
        self._inner.close()
