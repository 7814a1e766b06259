"""A sink for simulations: pieces that are hidden until they are published, as files are that are renamed.

The target is exact, as the contract of :class:`penstock.sink.Committer` asks: what is gone under its hidden name can't
be published by a late call, and a published piece that a reader has taken away is known by its witness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import DataLostError
from penstock.serialization import JsonSerializer
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
    TwoPhaseCommitSink,
    WriterContext,
)
from penstock.testing.simulation._scheduler import Event, Scheduler
from penstock.testing.simulation._target import SimulatedTarget, target

__all__ = ["Piece", "PieceSink", "PieceTarget"]


@dataclass(frozen=True)
class Piece:
    """A hidden or published piece: its name says who made it, and for which base."""

    name: str
    base: int


_PIECES: JsonSerializer[Piece] = JsonSerializer(1, lambda piece: dict(vars(piece)), lambda version, f: Piece(**f))


class PieceTarget(SimulatedTarget):
    """What there is. ``visible`` is what readers see now, ``taken`` what one has read and removed."""

    def __init__(self, scheduler: Scheduler, *, carries: bool = False) -> None:
        super().__init__(scheduler)
        self.carries = carries
        self.hidden: dict[str, tuple[int, ...]] = {}
        self.visible: dict[str, tuple[int, ...]] = {}
        self.taken: dict[str, tuple[int, ...]] = {}
        self.witnesses: dict[str, int] = {}
        self.sealed: set[str] = set()
        self.bases: dict[str, int] = {}

    def create_sink(self) -> PieceSink:
        return PieceSink(carries=self.carries)

    def shown(self) -> list[tuple[str, int]]:
        """Returns every row that was visible, even if it was read and removed."""
        return [(name, row) for pieces in (self.visible, self.taken) for name, rows in pieces.items() for row in rows]

    def left(self) -> list[str]:
        return sorted({*self.hidden, *self.witnesses, *self.sealed})

    def events(self) -> list[Event]:
        return [Event("a reader takes a piece away", lambda: bool(self.visible), lambda: self.take(min(self.visible)))]

    def stage(self, piece: Piece, rows: tuple[int, ...]) -> None:
        """Hides it, with a witness next to it."""
        self.hidden[piece.name] = rows
        self.witnesses[piece.name] = piece.base
        self.bases[piece.name] = piece.base

    def look(self, name: str) -> Found:
        """Returns the outcome of a piece."""
        if name in self.hidden:
            return Found.OPEN
        if name in self.visible:
            return Found.COMMITTED
        if name in self.sealed or name not in self.witnesses:
            return Found.LOST
        return Found.COMMITTED

    def publish(self, name: str) -> Found:
        """Takes it out of hiding, if it is there."""
        if name in self.hidden:
            self.visible[name] = self.hidden.pop(name)
            self.changes += 1
        return self.look(name)

    def seal(self, name: str) -> None:
        """Makes it impossible to publish it after this."""
        if name in self.hidden:
            del self.hidden[name]
            self.sealed.add(name)

    def remove(self, name: str) -> None:
        """Removes it without a trace."""
        self.hidden.pop(name, None)
        self.sealed.discard(name)
        self.witnesses.pop(name, None)

    def take(self, name: str) -> None:
        """A reader has read it and takes it away."""
        self.taken[name] = self.visible.pop(name)


class PieceSink(TwoPhaseCommitSink[Piece, Piece], SupportsStateRolling[Piece, Piece]):
    """With ``carries`` writers leave chunks, which rollers merge into pieces that are published. ``prefix``: what the
    names of its pieces begin with, where another sink writes to the same target.
    """

    def __init__(self, *, carries: bool = False, most_chunks: int = 2, prefix: str = "") -> None:
        self.carries = carries
        self.most_chunks = most_chunks
        self.prefix = prefix

    @property
    def committable_serializer(self) -> JsonSerializer[Piece]:
        return _PIECES

    @property
    def state_serializer(self) -> JsonSerializer[Piece]:
        return _PIECES

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[Piece, Piece]:
        return _PieceWriter(self, context)

    def create_committer(self, context: SinkContext) -> Committer[Piece, Piece]:
        return _PieceCommitter(self.prefix)

    def create_roller(self, context: WriterContext) -> StateRoller[Piece, Piece]:
        return _PieceRoller(self, context)

    def describe_committable(self, committable: Piece) -> str:
        return committable.name

    def describe_state(self, state: Piece) -> str:
        return state.name


class _PieceMaker:
    """What stages pieces in a task, and takes them back."""

    def __init__(self, sink: PieceSink, context: WriterContext) -> None:
        self._sink, self._context = sink, context
        self._made: list[Piece] = []

    def abort(self) -> None:
        there = target()
        for piece in self._made:
            there.scheduler.call(f"unstage {piece.name}", lambda name=piece.name: there.remove(name))


class _PieceWriter(_PieceMaker, CommittingSinkWriter[Piece, Piece]):
    def __init__(self, sink: PieceSink, context: WriterContext) -> None:
        super().__init__(sink, context)
        self._rows: list[int] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.column(0).to_pylist()

    def prepare_commit(self) -> PreparedCommit[Piece, Piece]:
        if not self._rows:
            return PreparedCommit()
        there, context = target(), self._context
        name = f"{self._sink.prefix}{context.base}/{context.attempt_id[-6:]}-w{context.writer_index}"
        piece = Piece(name, context.base)
        rows = tuple(self._rows)
        self._made.append(piece)
        there.scheduler.call(f"stage {piece.name} {rows}", lambda: there.stage(piece, rows))
        return PreparedCommit(states=[piece]) if self._sink.carries else PreparedCommit([piece])


class _PieceRoller(_PieceMaker, StateRoller[Piece, Piece]):
    def roll(self, states: Sequence[Piece], *, finish: bool) -> list[StateReplacement[Piece, Piece]]:
        if not states or (len(states) < self._sink.most_chunks and not finish):
            return []
        there, context = target(), self._context
        name = f"{self._sink.prefix}{context.base}/{context.attempt_id[-6:]}-roll{context.writer_index}"
        piece = Piece(name, context.base)

        def merge() -> None:
            gone = [state.name for state in states if state.name not in there.hidden]
            if gone:
                raise DataLostError(f"{gone} is gone")
            there.stage(piece, tuple(row for state in states for row in there.hidden[state.name]))

        self._made.append(piece)
        there.scheduler.call(f"merge {[state.name for state in states]} into {piece.name}", merge)
        return [StateReplacement(list(range(len(states))), [piece])]


class _PieceCommitter(Committer[Piece, Piece]):
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def look(self, committables: Sequence[Piece]) -> list[Found]:
        there = target()
        if not committables:
            return []
        names = [piece.name for piece in committables]
        found: list[Found] = there.scheduler.call(f"look at {names}", lambda: [there.look(name) for name in names])
        return found

    def publish(self, committables: Sequence[Piece]) -> list[Found]:
        there = target()
        return [
            there.scheduler.call(f"publish {piece.name}", lambda name=piece.name: there.publish(name))
            for piece in committables
        ]

    def seal(self, committables: Sequence[Piece]) -> None:
        there = target()
        for piece in committables:
            there.scheduler.call(f"seal {piece.name}", lambda name=piece.name: there.seal(name))

    def discard(self, committables: Sequence[Piece], states: Sequence[Piece]) -> None:
        there = target()
        for piece in (*committables, *states):
            there.scheduler.call(f"discard {piece.name}", lambda name=piece.name: there.remove(name))

    def are_there(self, states: Sequence[Piece]) -> list[bool]:
        there = target()
        names = [piece.name for piece in states]
        found: list[bool] = there.scheduler.call(f"look for {names}", lambda: [name in there.hidden for name in names])
        return found

    def clear(self, kept: Kept[Piece, Piece]) -> int:
        there = target()
        named = {piece.name for piece in (*kept.committables, *kept.states)}

        def listed() -> list[str]:
            own = [name for name in there.witnesses if name.startswith(self._prefix)]
            return [name for name in own if there.bases[name] < kept.base and name not in named]

        garbage = there.scheduler.call(f"list garbage below {kept.base}", listed)
        for name in garbage:
            there.scheduler.call(f"clear {name}", lambda name=name: there.remove(name))
        return len(garbage)
