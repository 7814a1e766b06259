"""A sink with dead letters on one model of pieces: letters carry state, and the rows' sink refuses some rows."""

from __future__ import annotations

import pyarrow as pa

from penstock.dead_letters import LETTER_TYPE, LetterForm, letters
from penstock.retry import NO_RETRIES
from penstock.sink import CommittingSinkWriter, LetterRoute, SinkUnion, WriterContext, with_dead_letters
from penstock.sink._union import Owned
from penstock.testing.simulation import PieceTarget, Violation
from penstock.testing.simulation._pieces import Piece, PieceSink, _PieceWriter

__all__ = ["LettersTarget", "is_letter"]

_IDS = pa.schema([("id", pa.int64())])
_FRAME = pa.schema([("id", pa.int64()), ("_bad_record", LETTER_TYPE)])


def is_letter(row: int) -> bool:
    """Returns whether a row is a bad record (odd), or one that the sink refuses (of three)."""
    return row % 2 == 1 or row % 3 == 0


def _offsets(marked: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([marked.column("offset")], schema=_IDS)


class LettersTarget(PieceTarget):
    """Rows of one sink, and letters of the other."""

    @property
    def schema(self) -> pa.Schema:
        """See the base class."""
        return _FRAME

    def batch(self, rows: object) -> pa.RecordBatch:
        """See the base class."""
        numbers = pa.array(rows, pa.int64())
        errors = pa.array(["odd" if row % 2 else None for row in numbers.to_pylist()], pa.string())
        return pa.record_batch([numbers, letters(errors, stage="source", offset=numbers)], schema=_FRAME)

    def create_sink(self) -> SinkUnion:  # type: ignore[override]
        """Returns both as one."""
        route = LetterRoute.of(
            _FRAME,
            "_bad_record",
            connector="pieces",
            destination="pieces",
            form=LetterForm(_IDS, _offsets),
            retry=NO_RETRIES,
        )
        made = with_dead_letters(_Picky(prefix="rows "), PieceSink(prefix="letters ", carries=True), route)
        assert isinstance(made, SinkUnion)
        return made

    def name_of(self, committable: Owned) -> str:
        """See the base class."""
        return str(committable.value.name)

    def check_end(self, rows: range) -> None:
        """Also: each row is where it belongs."""
        super().check_end(rows)
        wrong = [row for name, row in self.shown() if name.startswith("letters ") != is_letter(row)]
        if wrong:
            raise Violation(f"rows {wrong} are in the wrong one of the two")


class _Picky(PieceSink):
    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[Piece, Piece]:
        """Makes a writer that refuses every third row."""
        return _PickyWriter(self, context)


class _PickyWriter(_PieceWriter):
    def write(self, batch: pa.RecordBatch) -> None:
        ids = batch.column(0).to_pylist()
        reasons = {number: "of three" for number, row in enumerate(ids) if row % 3 == 0}
        super().write(self._context.refuse(batch, reasons, lambda rows: {"offset": rows.column(0)}))
