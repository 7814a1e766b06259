"""COPY … FROM STDIN in the binary format: Arrow batches become its bytes, without a loop over cells."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql

from penstock_postgres.client._arrow import Cells, cells_of
from penstock_postgres.client._connection import Connection, errors
from penstock_postgres.client._table import Column

__all__ = ["CopyIn", "encoded"]

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
#: Rows are encoded in pieces of about this size, which bounds the memory beside the batch itself.
_PIECE_BYTES = 1 << 20
#: Values that are longer than this on average are copied one by one: moving their bytes costs more than the loop.
_LONG = 256


class CopyIn:
    """One COPY into ``target``, begun by the first row. Single thread."""

    def __init__(self, connection: Connection, target: sql.Identifier, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._what = f"table {target.as_string(connection)}"
        names = sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)
        self._statement = sql.SQL("copy {} ({}) from stdin (format binary)").format(target, names)
        self._cursor = connection.cursor()
        self._context: AbstractContextManager[psycopg.Copy] | None = None
        self._copy: psycopg.Copy | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Sends the rows of ``batch``, whose columns are those of this COPY. Raises BadDataError for a bad value."""
        if not batch.num_rows:
            return
        with errors(self._what):
            if self._copy is None:
                self._context = self._cursor.copy(self._statement)
                self._copy = self._context.__enter__()
                self._copy.write(_HEADER)
            step = max(1, batch.num_rows * _PIECE_BYTES // max(1, batch.nbytes))
            for start in range(0, batch.num_rows, step):
                self._copy.write(encoded(batch.slice(start, step), self._columns))

    def finish(self) -> None:
        """Returns once the server has all rows. Raises BadDataError if it does not take one."""
        if self._copy is not None and self._context is not None:
            with errors(self._what):
                self._copy.write(_TRAILER)
                context, self._context = self._context, None
                context.__exit__(None, None, None)

    def abort(self) -> None:
        """Ends a COPY that was not finished: the transaction fails. Does nothing after :meth:`finish`."""
        if self._context is not None:
            context, self._context = self._context, None
            with suppress(Exception):
                context.__exit__(ConnectionError, ConnectionError("given up"), None)


def encoded(batch: pa.RecordBatch, columns: Sequence[Column]) -> memoryview:
    """The rows of ``batch`` as COPY's binary format has them: a count of fields, then length and bytes of each."""
    cells = [cells_of(values, column) for values, column in zip(batch.columns, columns, strict=True)]
    count = batch.num_rows
    places, size = [], np.full(count, 2, np.int64)
    for one in cells:
        places.append(size.copy())
        size += 4 + _lengths(one, count)
    begin = np.cumsum(size) - size
    out = np.empty(int(size.sum()), np.uint8)
    _scatter(out, begin, np.broadcast_to(_bytes(np.full(1, len(cells), ">i2")), (count, 2)))
    for one, place in zip(cells, places, strict=True):
        _put(out, begin + place, one, count)
    return out.data


def _bytes(numbers: np.ndarray) -> np.ndarray:
    return numbers.view(np.uint8).reshape(len(numbers), -1)


def _lengths(cells: Cells, count: int) -> np.ndarray:
    """How many bytes each value has; a null has none."""
    lengths = np.full(count, cells.width, np.int64) if cells.offsets is None else np.diff(cells.offsets)
    return lengths if cells.valid is None else np.where(cells.valid, lengths, 0)


def _put(out: np.ndarray, at: np.ndarray, cells: Cells, count: int) -> None:
    lengths = _lengths(cells, count)
    announced = lengths if cells.valid is None else np.where(cells.valid, lengths, -1)
    _scatter(out, at, _bytes(announced.astype(">i4")))
    if cells.offsets is None:
        chosen = slice(None) if cells.valid is None else cells.valid
        _scatter(out, at[chosen] + 4, cells.data[chosen])
        return
    total = int(lengths.sum())
    if total > _LONG * count:
        for start, source, length in zip((at + 4).tolist(), cells.offsets.tolist(), lengths.tolist(), strict=False):
            out[start : start + length] = cells.data[source : source + length]
        return
    shift = np.repeat(at + 4 - (np.cumsum(lengths) - lengths), lengths)
    first = int(cells.offsets[0])
    out[shift + np.arange(total)] = cells.data[first : first + total]


def _scatter(out: np.ndarray, at: np.ndarray, rows: np.ndarray) -> None:
    """Writes each of ``rows`` where ``at`` says."""
    if len(at) > 1 and len(out) % len(at) == 0 and (np.diff(at) == len(out) // len(at)).all():
        every = len(out) // len(at)  # All rows are of one size: a block of a matrix, which is much faster.
        start = int(at[0])
        out.reshape(-1, every)[:, start : start + rows.shape[1]] = rows
    else:
        out[at[:, None] + np.arange(rows.shape[1])] = rows
