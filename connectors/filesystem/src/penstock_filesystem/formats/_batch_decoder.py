"""Decodes what is read as Arrow batches: takes the columns that are wanted, and casts them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from penstock.errors import BadDataError
from penstock.metrics import Metrics
from penstock.serialization.ddl import shown_type
from penstock_filesystem.formats._fit import Lacks, find_name, fit_column
from penstock_filesystem.formats._inference import FileSchemas, SchemaInference
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import Decoder, FormatReader, Rows, SplitState, missing_column
from penstock_filesystem.formats._rescue import fit_columns, to_json

__all__ = ["BatchDecoder", "BatchReader", "NumberedBatch", "columns_to_read"]


class NumberedBatch(NamedTuple):
    """Rows of a file, and the number of the first."""

    first_row: int
    batch: pa.RecordBatch


def columns_to_read(schema: pa.Schema, there: Sequence[str], options: ReadOptions, url: str) -> list[str] | None:
    """Returns the names of those columns of a file that ``schema`` wants; ``None`` if each may have to be rescued.

    ``there`` are all that the file has. Raises BadDataError for one that is missing and must not be, and for one that
    several may be.
    """
    wanted = [name for name in schema.names if name != options.rescue_column]
    rescues = len(wanted) < len(schema)
    try:
        names = {name: find_name(name, there) for name in ([*wanted, *there] if rescues else wanted)}
    except BadDataError as error:
        raise BadDataError(f"{url}: {error}") from None
    for name in (name for name, found in names.items() if found is None):
        missing_column(name, there, options, url)
    if rescues:
        return None
    return [name for name in names.values() if name is not None]


class BatchDecoder(Decoder):
    """Gives the columns of ``schema``; where rows are, by their numbers, if ``offsets``.

    If the column for rescued data is one of them, it gets what does not fit the others, except for ``elsewhere``.
    """

    def __init__(
        self,
        schema: pa.Schema,
        options: ReadOptions,
        metrics: Metrics,
        *,
        offsets: bool,
        elsewhere: Collection[str] = (),
    ) -> None:
        self._rescues = options.rescue_column in schema.names
        self._fields = [field for field in schema if field.name != options.rescue_column]
        self._options = options
        self._metrics = metrics
        self._offsets = offsets
        self._elsewhere = elsewhere

    def decode(self, element: NumberedBatch, state: SplitState) -> Iterator[Rows]:
        """Yields the batch."""
        first, batch = element
        lacks = partial(missing_column, options=self._options, url=state.url)
        if self._rescues:
            columns = self._rescued(_without(batch, self._elsewhere), lacks)
        else:
            columns = {field.name: self._column(field, batch, lacks, state.url) for field in self._fields}
        numbers = pa.array(range(first, first + batch.num_rows), pa.int64()) if self._offsets else None
        yield Rows(columns, batch.num_rows, numbers)

    def _column(self, field: pa.Field, batch: pa.RecordBatch, lacks: Lacks, url: str) -> pa.Array:
        found = find_name(field.name, batch.schema.names)
        if found is None:
            lacks(field.name, batch.schema.names)
            return pa.nulls(batch.num_rows, field.type)
        column = batch.column(batch.schema.names.index(found))
        try:
            return fit_column(column, field.type, field.name, lacks)
        except pa.ArrowException as error:
            raise BadDataError(
                f"{url}: column '{field.name}' holds {shown_type(column.type, field.type)}, which can't be read as "
                f"{shown_type(field.type, column.type)}: {error}; "
                "correct the schema"
            ) from error

    def _rescued(self, batch: pa.RecordBatch, lacks: Lacks) -> dict[str, pa.Array]:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        fitted, left = fit_columns(columns, self._fields, "", batch.num_rows, lacks)
        assert self._options.rescue_column is not None
        fitted[self._options.rescue_column] = rescued = to_json(left, batch.num_rows)
        if rescued.null_count < len(rescued):
            self._metrics.add("rescued_rows", len(rescued) - rescued.null_count)
        return fitted


def _without(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """Returns ``batch`` without the columns called so, whatever their case."""
    known = {name.lower() for name in names}
    return batch.select([name for name in batch.schema.names if name.lower() not in known])


class BatchReader(FormatReader):
    """Reads files of columns, whose elements are :class:`NumberedBatch`."""

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool, elsewhere: Collection[str]) -> Decoder:
        """Creates a decoder that takes the columns it is to give, and casts them."""
        return BatchDecoder(schema, self.options, metrics, offsets=offsets, elsewhere=elsewhere)

    def inference(self, progress: Callable[[int], object]) -> SchemaInference:
        """Takes the first file's schema, or with ``mergeSchema`` that of all."""
        return FileSchemas(self._schema_of, progress, merge=self.options.merge_schema)

    @abstractmethod
    def _schema_of(self, file: InputFile) -> pa.Schema:
        """Returns the columns that a file has."""
