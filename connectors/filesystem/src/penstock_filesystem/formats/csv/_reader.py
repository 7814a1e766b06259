"""Reads CSV files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock_filesystem.formats._blocks import Block, quoted_row_blocks
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._lines import LineReader
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import Decoder
from penstock_filesystem.formats.csv._cells import CsvLines, row_cells
from penstock_filesystem.formats.csv._decoder import CsvDecoder
from penstock_filesystem.formats.csv._inference import infer_types

__all__ = ["CsvReader"]


class CsvReader(LineReader):
    """Takes cells by position, as Spark does with an explicit schema; a doubled quote in a quoted cell is one quote."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options, CsvLines(options.encoding, options.line_sep, options.multi_line, options.csv))
        self.has_header = options.csv.header

    def whole_file_blocks(self, read: Callable[[int], bytes]) -> Iterator[Block]:
        """Yields blocks that, with ``multiLine``, end at a line end outside quotes."""
        if not self.options.multi_line:
            return super().whole_file_blocks(read)
        dialect = self.options.csv
        return quoted_row_blocks(read, dialect.quote.encode(), dialect.escape.encode())

    def validate(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError for nested columns."""
        for field in schema:
            if pa.types.is_nested(field.type):
                raise BadConfigurationError(f"format csv cannot hold the column {field.name} of type {field.type}")

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool) -> Decoder:
        """Creates a decoder of cells by position."""
        assert isinstance(self.lines, CsvLines)
        return CsvDecoder(self.lines, self.options, schema, metrics, offsets)

    def infer(self, files: Sequence[InputFile]) -> pa.Schema:
        """Takes names from the header of the first file that is not empty, or ``_c0`` …; types from its first rows."""
        sample = self.sample(files)
        rows = [line.text for line in self.lines.rows(sample) if self.lines.is_row(line.text)]
        if not rows:
            raise BadConfigurationError(
                "every CSV file is empty, so there is no schema to infer: give one with .schema"
            )
        first = [cell.text for cell in row_cells(rows[0], self.options.csv)]
        dialect = self.options.csv
        unnamed = ("", dialect.null_value)
        names = [n if dialect.header and n not in unnamed else f"_c{i}" for i, n in enumerate(first)]
        if len({name.lower() for name in names}) != len(names):
            names = [f"{n}{i}" if [m.lower() for m in names].count(n.lower()) > 1 else n for i, n in enumerate(names)]
        cells = [
            [cell.text or (dialect.empty_value if cell.quoted else "") for cell in row_cells(row, dialect)]
            for row in (rows[1:] if dialect.header else rows)
        ]
        types = infer_types(cells, names, dialect.null_value, self.options.times) if dialect.infer_types else {}
        return pa.schema([pa.field(name, types.get(name, pa.string())) for name in names])
