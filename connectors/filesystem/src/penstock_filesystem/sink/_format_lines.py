"""The row formats: text, CSV and JSON lines."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues
from penstock.serialization.values import JsonWriter, TimeWriter, ValueText, concatenated, holds_any, is_plain, is_text
from penstock_filesystem.sink._format import BinaryOutput, Encoder, Format, FramedEncoder, unsupported

__all__ = ["CsvFormat", "JsonFormat", "LineFormat", "TextFormat"]


class LineFormat(Format):
    """A format with one line per row, and perhaps a header line."""

    codecs: ClassVar[dict[str, str]] = {"none": "", "gzip": ".gz", "zstd": ".zst"}
    suffix: ClassVar[str]

    def __init__(self, schema: pa.Schema, options: OptionValues) -> None:
        super().__init__(schema, options)
        self.line_separator = options["lineSep"]

    @property
    def extension(self) -> str:
        """See the base class."""
        return self.suffix + self.codecs[self.codec]

    def header(self) -> str:
        """The first line, or nothing."""
        return ""

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """A string per row, without its end."""
        raise NotImplementedError

    def encoder(self, out: BinaryOutput, salt: str) -> Encoder:
        """See the base class."""
        return _LineEncoder(self, out)


class _LineEncoder(FramedEncoder):
    def __init__(self, lines: LineFormat, out: BinaryOutput) -> None:
        super().__init__(out, lines.header().encode(), lines.codec)
        self._lines = lines
        self.start()

    def render(self, batch: pa.RecordBatch) -> Any:
        return concatenated(pc.binary_join_element_wise(self._lines.lines(batch), "", self._lines.line_separator))


class TextFormat(LineFormat):
    """One string column, a line each; null is an empty line, as Spark writes it."""

    name = "text"
    suffix = ".txt"

    def validate(self) -> None:
        """See the base class."""
        if len(self.schema) != 1 or not is_text(self.schema.field(0).type):
            columns = ", ".join(f"{field.name} {field.type}" for field in self.schema)
            raise BadConfigurationError(
                f"format text takes exactly one string column, there are: {columns}; select one, or use csv or json"
            )

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """See the base class."""
        return pc.fill_null(batch.column(0).cast(pa.string()), "")

    def settings(self) -> tuple[object, ...]:
        """See the base class."""
        return (self.line_separator,)


def _patterns(options: OptionValues) -> tuple[str | None, str | None]:
    return options["timestampFormat"], options["dateFormat"]


def _value_text(options: OptionValues) -> ValueText:
    timestamp, date = _patterns(options)
    return ValueText(
        TimeWriter("timestampFormat", timestamp) if timestamp else None,
        TimeWriter("dateFormat", date) if date else None,
    )


class CsvFormat(LineFormat):
    """CSV with Spark's quoting, so that ``spark.read.csv`` with the same options gives the same rows back.

    pyarrow's own writer only knows doubled quotes, which Spark's reader takes apart only if it is told to.
    A value with a line break is quoted; Spark needs ``multiLine`` to read it.
    """

    name = "csv"
    suffix = ".csv"

    def __init__(self, schema: pa.Schema, options: OptionValues) -> None:
        super().__init__(schema, options)
        self._text = _value_text(options)
        self._patterns = _patterns(options)
        self._with_header = options["header"]
        self._separator, self._quote, self._escape = options["sep"], options["quote"], options["escape"]
        self._quote_all = options["quoteAll"]
        self._null, self._empty = options["nullValue"], options["emptyValue"]
        if len(self._quote) != 1 or len(self._escape) != 1:
            raise BadConfigurationError("options 'quote' and 'escape' are one character each")
        if not self._null and len(schema) == 1:
            self._null = self._empty  # an empty line would be no row
        special = (self._separator, self._quote, self.line_separator, "\n", "\r")
        self._special = "|".join(re.escape(text) for text in special)
        self._special_bytes = b"".join(text.encode()[:1] for text in special)

    def validate(self) -> None:
        """See the base class."""
        for field in self.schema:
            if not is_plain(field.type):
                raise unsupported(self.name, field, "cast it to string (to_json, base64), or use json or parquet")

    def settings(self) -> tuple[object, ...]:
        """See the base class."""
        quoting = (self._separator, self._quote, self._escape, self._quote_all, self._null, self._empty)
        return (self._with_header, *quoting, self.line_separator, *self._patterns)

    def header(self) -> str:
        """See the base class."""
        if not self._with_header:
            return ""
        names = self._field(pa.array(self.schema.names, pa.string()))
        return str(self._separator.join(names.to_pylist()) + self.line_separator)

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """See the base class."""
        return pc.binary_join_element_wise(*(self._field(column) for column in batch.columns), self._separator)

    def _field(self, values: pa.Array) -> pa.Array:
        text = self._text(values)
        if self._quote_all:
            text = self._quoted(text)
        else:
            if holds_any(text, self._special_bytes):
                text = pc.if_else(pc.match_substring_regex(text, self._special), self._quoted(text), text)
            if is_text(values.type):
                text = pc.if_else(pc.equal(text, ""), self._empty, text)
        return pc.fill_null(text, self._null) if text.null_count else text

    def _quoted(self, text: pa.Array) -> pa.Array:
        if self._escape != self._quote:
            text = pc.replace_substring(text, self._escape, self._escape * 2)
        text = pc.replace_substring(text, self._quote, self._escape + self._quote)
        return pc.binary_join_element_wise(self._quote, text, self._quote, "")


class JsonFormat(LineFormat):
    """A JSON object per line, as Spark's: null fields left out, binary in base 64, NaN and infinity as strings."""

    name = "json"
    suffix = ".json"

    def __init__(self, schema: pa.Schema, options: OptionValues) -> None:
        super().__init__(schema, options)
        self._writer = JsonWriter(_value_text(options), ignore_nulls=options["ignoreNullFields"])
        self._patterns = [one for one in _patterns(options) if one]

    def validate(self) -> None:
        """See the base class."""
        for field in self.schema:
            self._validate(field, field.type)

    def _validate(self, field: pa.Field, kind: pa.DataType) -> None:
        if pa.types.is_struct(kind):
            for index in range(kind.num_fields):
                self._validate(field, kind.field(index).type)
        elif pa.types.is_map(kind):
            if not is_text(kind.key_type):
                raise unsupported(self.name, field, "keys of a map must be strings")
            self._validate(field, kind.item_type)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            self._validate(field, kind.value_type)
        elif not (is_plain(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            raise unsupported(self.name, field, "cast it to string")

    def settings(self) -> tuple[object, ...]:
        """See the base class."""
        return (self.line_separator, *self._patterns)

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """See the base class."""
        return self._writer.objects(batch.schema.names, batch.columns)
