"""The schema of CSV files: names from a first row, types from the cells of all."""

from __future__ import annotations

import csv
from dataclasses import replace
from io import StringIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.serialization.values import TimeParser
from penstock_filesystem.formats._blocks import Block
from penstock_filesystem.formats._inference import SchemaInference
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import SplitState
from penstock_filesystem.formats._sampling import BlockSampler
from penstock_filesystem.formats._text_values import FLOAT
from penstock_filesystem.formats.csv._cells import CsvLines, column_names
from penstock_filesystem.formats.csv._decoder import CsvDecoder
from penstock_filesystem.formats.csv._dialect import CsvReadDialect

__all__ = ["CsvInference"]

_TIMESTAMP = pa.timestamp("us", "UTC")
_PATTERNS = {
    "whole": "^[+-]?[0-9]+$",
    "float": rf"^[\x00- ]*(?:{FLOAT})[\x00- ]*$",
    "boolean": "^(?i:true|false)$",
}
_MOST_DIGITS = 38
#: Of a byte order mark, behind which a file with one begins.
_MARK_BYTES = 3


class CsvInference(SchemaInference):
    """Names are those of the header, or ``_c0`` and so on. Types are strings, unless they are to be inferred."""

    def __init__(self, lines: CsvLines, options: ReadOptions, sampler: BlockSampler) -> None:
        self._lines = replace(lines, dialect=replace(options.csv, enforce_schema=True))
        self._dialect = options.csv
        self._sampler = sampler
        # Every row counts, also one that is dropped later, and every column holds values.
        self._options = replace(options, bad_records="null", corrupt_column="")
        self._types: dict[str, _ColumnType] | None = None
        self._decoder: CsvDecoder | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the names are known, if they are all that is wanted."""
        return self._types is not None and not self._dialect.infer_types

    def add(self, file: InputFile) -> None:
        """Takes in the rows of a file."""
        state = SplitState(file.path, file.url, file.size, 0, self._dialect.header)
        for number, block in enumerate(self._sampler.blocks(file)):
            if self._types is None and not self._begin(block):
                self._sampler.take_next()
                continue
            if self.is_complete:
                return
            assert self._decoder is not None and self._types is not None
            if number == 0 and block.offset > _MARK_BYTES:  # the file's start was left out
                state.header_pending = False
            for rows in self._decoder.decode(block, state):
                for name, texts in rows.columns.items():
                    self._types[name].add(texts)

    def _begin(self, block: Block) -> bool:
        """Takes the columns from the first row of the block. Returns whether it has one."""
        first = next((line.text for line in self._lines.rows(block) if self._lines.is_row(line.text)), None)
        if first is None:
            return False
        names = column_names(first, self._dialect)
        if len(set(names)) < len(names):
            raise BadConfigurationError(f"CSV columns have the same name: {', '.join(names)}; give a schema")
        self._types = {name: _ColumnType(self._dialect, self._options.times) for name in names}
        schema = pa.schema([(name, pa.string()) for name in names])
        self._decoder = CsvDecoder(self._lines, self._options, schema, Metrics(), False)
        return True

    def schema(self) -> pa.Schema:
        """Returns the columns in the order of the first row."""
        if self._types is None:
            raise BadConfigurationError(
                "every CSV file is empty, so there is no schema to infer: give one with .schema"
            )
        return pa.schema([(name, type_.find()) for name, type_ in self._types.items()])


class _ColumnType:
    """What fits all cells of a column so far.

    As Spark, but a whole number is an int64 even if all are small. Dates and timestamps are what the options say:
    texts in the user's patterns, or ISO where the user gave none. A column in which nothing else fits, or that holds
    nothing, is a string.
    """

    def __init__(self, dialect: CsvReadDialect, times: TimeParser) -> None:
        self._null_value = dialect.null_value
        self._not_finite = pa.array(dialect.not_finite, pa.string())
        self._times = times
        self._fits = {*_PATTERNS, "date", "timestamp"}
        self._is_long = True
        self._digits = 0
        self._is_empty = True

    def add(self, texts: pa.Array) -> None:
        """Takes in cells: null ones and empty ones say nothing."""
        if not self._fits:
            return
        texts = texts.filter(pc.and_(pc.greater(pc.binary_length(texts), 0), pc.not_equal(texts, self._null_value)))
        if not len(texts):
            return
        self._is_empty = False
        times = self._fitting_times(texts)
        numbers = texts.filter(pc.invert(pc.is_in(texts, self._not_finite)))
        cells = {kind: numbers if kind == "float" else texts for kind in self._fits & _PATTERNS.keys()}
        self._fits = {kind for kind, found in cells.items() if _all_match(found, _PATTERNS[kind])} | times
        if "whole" in self._fits:
            self._measure(pc.utf8_ltrim(texts, "+"))

    def _measure(self, texts: pa.Array) -> None:
        self._digits = max(self._digits, pc.max(pc.utf8_length(pc.utf8_ltrim(texts, "-0"))).as_py())
        try:
            texts.cast(pa.int64())
        except pa.ArrowInvalid:
            self._is_long = False

    def _fitting_times(self, texts: pa.Array) -> set[str]:
        readers = {"date": self._times.date_reader, "timestamp": self._times.timestamp_reader}
        wanted = self._fits & readers.keys()
        iso = _guess(texts) if any(readers[kind] is None for kind in wanted) else set()
        types = {"date": pa.date32(), "timestamp": _TIMESTAMP}
        read = {kind for kind in wanted if readers[kind] is not None and _fits(texts, types[kind], self._times)}
        return read | {kind for kind in wanted & iso if readers[kind] is None}

    def find(self) -> pa.DataType:
        """Returns the type."""
        if self._is_empty:
            return pa.string()
        if "whole" in self._fits and self._is_long:
            return pa.int64()
        if "whole" in self._fits and self._digits <= _MOST_DIGITS:
            return pa.decimal128(self._digits, 0)
        types = {"float": pa.float64(), "boolean": pa.bool_(), "date": pa.date32(), "timestamp": _TIMESTAMP}
        return next((type_ for kind, type_ in types.items() if kind in self._fits), pa.string())


def _all_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


def _guess(texts: pa.Array) -> set[str]:
    """Returns which kinds of ISO times all texts are, by pyarrow; a date is a timestamp as well."""
    text = StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([text] for text in texts.to_pylist())
    data = text.getvalue().encode()
    table = pacsv.read_csv(
        pa.BufferReader(data),
        read_options=pacsv.ReadOptions(column_names=["text"], use_threads=False, block_size=len(data) + 1),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(null_values=[]),  # not "NaN", "NA" and others
    )
    guessed = table.schema.field(0).type
    if pa.types.is_date(guessed):
        return {"date", "timestamp"}
    return {"timestamp"} if pa.types.is_timestamp(guessed) else set()


def _fits(texts: pa.Array, type_: pa.DataType, times: TimeParser) -> bool:
    try:
        times.column(texts, type_)
    except pa.ArrowInvalid:
        return False
    return True
