"""Reads CSV files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.serialization.ddl import shown_type
from penstock_filesystem.formats._blocks import Block, quoted_row_blocks
from penstock_filesystem.formats._inference import SchemaInference
from penstock_filesystem.formats._lines import LineReader
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import Decoder
from penstock_filesystem.formats._sampling import BlockSampler
from penstock_filesystem.formats.csv._cells import CsvLines, last_row_end
from penstock_filesystem.formats.csv._decoder import CsvDecoder
from penstock_filesystem.formats.csv._inference import CsvInference

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
        return quoted_row_blocks(read, lambda data: last_row_end(data, dialect))

    def validate(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError for nested columns."""
        for field in schema:
            if pa.types.is_nested(field.type):
                raise BadConfigurationError(
                    f"format csv cannot hold the column {field.name} of type {shown_type(field.type)}"
                )

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool, elsewhere: Collection[str]) -> Decoder:
        """Creates a decoder of cells by position."""
        assert isinstance(self.lines, CsvLines)
        return CsvDecoder(self.lines, self.options, schema, metrics, offsets)

    def inference(self, progress: Callable[[int], object]) -> SchemaInference:
        """Takes names from the first row of the first file that has one; types from all rows."""
        assert isinstance(self.lines, CsvLines)
        sampler = BlockSampler(self, self.options.sampling_ratio, progress)
        return CsvInference(self.lines, self.options, sampler)
