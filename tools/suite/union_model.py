"""Two sinks that are committed together, on one model of pieces: one that carries state, and one that does not."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock.sink import CommittingSinkWriter, Member, PreparedCommit, SinkUnion, WriterContext
from penstock.sink._union import Owned
from penstock.system import system
from penstock.testing.simulation import PieceTarget
from penstock.testing.simulation._pieces import PieceSink

__all__ = ["UnionTarget"]


class UnionTarget(PieceTarget):
    """Rows with an even number go to one sink, the others to the other."""

    def create_sink(self) -> SinkUnion:  # type: ignore[override]
        """Returns both as one."""
        sinks = {"even": PieceSink(prefix="even "), "odd": PieceSink(prefix="odd ", carries=True)}
        return _Both([Member(name, sink, self.schema) for name, sink in sinks.items()])

    def name_of(self, committable: Owned) -> str:
        """See the base class."""
        return str(committable.value.name)


class _Both(SinkUnion):
    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[Owned, Owned]:
        """Makes one writer for both, in place of a write for each."""
        return _BothWriter(
            {
                name: one.sink.create_writer(replace(one.context_of(context), attempt_id=system().new_id()))
                for name, one in self.members.items()
            }
        )


class _BothWriter(CommittingSinkWriter[Owned, Owned]):
    def __init__(self, writers: dict[str, CommittingSinkWriter[object, object]]) -> None:
        self._writers = writers

    def write(self, batch: pa.RecordBatch) -> None:
        for name, writer in self._writers.items():
            rows = [row for row in batch.column(0).to_pylist() if row % 2 == (name == "odd")]
            writer.write(pa.record_batch([pa.array(rows, pa.int64())], schema=batch.schema))

    def prepare_commit(self) -> PreparedCommit[Owned, Owned]:
        made: PreparedCommit[Owned, Owned] = PreparedCommit()
        for name, writer in self._writers.items():
            one = writer.prepare_commit()
            made.committables += [Owned(name, committable) for committable in one.committables]
            made.states += [Owned(name, state) for state in one.states]
        return made

    def abort(self) -> None:
        for writer in self._writers.values():
            writer.abort()
