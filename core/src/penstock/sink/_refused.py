"""Finding the rows of a batch that a sink can't write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pyarrow as pa

from penstock.errors import BadDataError
from penstock.sink._contracts import WriterContext

__all__ = ["convert_refusing", "rows_refused_by"]

ConvertedT = TypeVar("ConvertedT")


def convert_refusing(
    context: WriterContext,
    batch: pa.RecordBatch,
    convert: Callable[[pa.RecordBatch], ConvertedT],
    fields_of: Callable[[pa.RecordBatch], Mapping[str, Any]],
) -> tuple[pa.RecordBatch, ConvertedT]:
    """Returns the rows that ``convert`` takes, and what it makes out of them; the others are refused.

    ``fields_of`` is that of :meth:`WriterContext.refuse`. Raises BadDataError if no dead letters are kept.
    """
    try:
        return batch, convert(batch)
    except BadDataError:
        if context.refused is None:
            raise
    kept = context.refuse(batch, rows_refused_by(convert, batch), fields_of)
    return kept, convert(kept)


def rows_refused_by(write: Callable[[pa.RecordBatch], object], batch: pa.RecordBatch) -> dict[int, str]:
    """Returns why rows can't be written, by their number.

    ``write`` tries a batch, and raises BadDataError if it has a bad row. It gets halves until the bad rows are found:
    most rows are good.
    """
    found: dict[int, str] = {}
    parts = [(0, batch.num_rows)] if batch.num_rows else []
    while parts:
        first, count = parts.pop()
        try:
            write(batch.slice(first, count))
        except BadDataError as error:
            if count == 1:
                found[first] = str(error)
            else:
                parts += [(first + count // 2, count - count // 2), (first, count // 2)]
    return found
