"""Decodes what is read as Arrow batches: takes the columns that are wanted, and casts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from penstock.errors import BadDataError
from penstock_filesystem.formats._fit import find_name, fit_column
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import Decoder, Rows, SplitState, missing_column

__all__ = ["BatchDecoder", "NumberedBatch"]


class NumberedBatch(NamedTuple):
    """Rows of a file, and the number of the first."""

    first_row: int
    batch: pa.RecordBatch


class BatchDecoder(Decoder):
    """Gives the columns of ``schema``; where rows are, by their numbers, if ``offsets``."""

    def __init__(self, schema: pa.Schema, options: ReadOptions, *, offsets: bool) -> None:
        self._schema = schema
        self._options = options
        self._offsets = offsets

    def decode(self, element: NumberedBatch, state: SplitState) -> Iterator[Rows]:
        """Yields the batch."""
        first, batch = element
        columns = {field.name: self._column(field, batch, state) for field in self._schema}
        numbers = pa.array(range(first, first + batch.num_rows), pa.int64()) if self._offsets else None
        yield Rows(columns, batch.num_rows, numbers)

    def _column(self, field: pa.Field, batch: pa.RecordBatch, state: SplitState) -> pa.Array:
        def lacks(name: str, there: Sequence[str]) -> None:
            missing_column(name, there, self._options, state.url)

        found = find_name(field.name, batch.schema.names)
        if found is None:
            lacks(field.name, batch.schema.names)
            return pa.nulls(batch.num_rows, field.type)
        try:
            return fit_column(batch.column(batch.schema.names.index(found)), field.type, field.name, lacks)
        except pa.ArrowException as error:
            raise BadDataError(
                f"{state.url}: column '{field.name}' can't be read as {field.type}: {error}; correct the schema"
            ) from error
