"""CSV: whole blocks by Arrow's parser, and row by row where one does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.csv as pacsv

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.storage import Storage
from penstock_filesystem.source.formats.base import Decoder
from penstock_filesystem.source.formats.csv_cells import quoted_rows, row_cells
from penstock_filesystem.source.formats.csv_decoder import CsvDecoder
from penstock_filesystem.source.formats.lines import Line, LineFormat
from penstock_filesystem.source.line_reader import Block, quoted_row_blocks
from penstock_filesystem.source.malformed import BadRowPolicy
from penstock_filesystem.source.opened import OpenedFile

__all__ = ["CsvFormat"]


class CsvFormat(LineFormat):
    """Cells by position, as Spark with an explicit schema; a doubled quote in a quoted cell is one quote."""

    def whole_file_blocks(self, read: Callable[[int], bytes]) -> Iterator[Block]:
        """See the base class; with ``multiLine`` a row may hold line ends in quotes."""
        if not self.settings.multi_line:
            return super().whole_file_blocks(read)
        dialect = self.settings.csv
        return quoted_row_blocks(read, dialect.quote.encode(), dialect.escape.encode())

    def validate(self, schema: pa.Schema) -> None:
        """See the base class."""
        for field in schema:
            if pa.types.is_nested(field.type):
                raise BadConfigurationError(f"format csv cannot hold the column {field.name} of type {field.type}")

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool) -> Decoder:
        """See the base class."""
        return CsvDecoder(self, schema, BadRowPolicy(self.settings.mode, metrics), offsets)

    def infer(self, storage: Storage, files: Sequence[OpenedFile]) -> pa.Schema:
        """Names from the header of the first file that is not empty, or ``_c0`` …; types from its first block."""
        sample = self.sample(files)
        rows = [line.text for line in self.rows(sample) if self.is_row(line.text)]
        if not rows:
            raise BadConfigurationError(
                "every CSV file is empty, so there is no schema to infer: give one with .schema"
            )
        first = [cell.text for cell in row_cells(rows[0], self.settings.csv)]
        dialect = self.settings.csv
        names = [n if dialect.header and n else f"_c{i}" for i, n in enumerate(first)]
        if len({name.lower() for name in names}) != len(names):
            names = [f"{n}{i}" if [m.lower() for m in names].count(n.lower()) > 1 else n for i, n in enumerate(names)]
        types = self._infer_types(rows[1:] if dialect.header else rows, names) if dialect.infer_types else {}
        return pa.schema([pa.field(name, types.get(name, pa.string())) for name in names])

    def _infer_types(self, rows: list[str], names: list[str]) -> dict[str, pa.DataType]:
        dialect = self.settings.csv
        if not rows:
            return {}
        fitting = [row for row in rows if len(row_cells(row, dialect)) == len(names)]
        table = pacsv.read_csv(
            pa.BufferReader("\n".join(fitting).encode()),
            read_options=pacsv.ReadOptions(column_names=names, use_threads=False),
            parse_options=pacsv.ParseOptions(
                delimiter=dialect.sep, quote_char=dialect.quote or False, newlines_in_values=self.settings.multi_line
            ),
            convert_options=pacsv.ConvertOptions(
                null_values=["", dialect.null_value], true_values=["true", "TRUE"], false_values=["false", "FALSE"]
            ),
        )
        return {field.name: _inferred(field.type) for field in table.schema}

    def rows(self, block: Block) -> Iterator[Line]:
        """The rows of a block as text."""
        if not self.settings.multi_line:
            yield from self.lines(block)
            return
        encoding = self.block_encoding
        text = block.data.decode(encoding, "replace")
        valid = "\ufffd" not in text
        offset, before = block.offset, 0
        for start, row in quoted_rows(text, self.settings.csv):
            offset += len(text[before:start].encode(encoding, "replace"))
            before = start
            yield Line(offset, row, valid or "\ufffd" not in row)

    def is_row(self, text: str) -> bool:
        """Whether a line is neither blank nor a comment."""
        comment = self.settings.csv.comment
        return bool(text.strip()) and not (comment and text.startswith(comment))


def _inferred(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_null(type_) or pa.types.is_time(type_):
        return pa.string()
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(type_) else type_
