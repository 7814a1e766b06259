"""Writes CSV files."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.serialization.values import holds_any, is_plain, is_text
from penstock_filesystem.formats._line_writer import LineWriter, value_text
from penstock_filesystem.formats._options import WriteOptions
from penstock_filesystem.formats._writer_base import unsupported

__all__ = ["CsvWriter"]


class CsvWriter(LineWriter):
    """Writes CSV with Spark's quoting, so that ``spark.read.csv`` with the same options gives the same rows back.

    pyarrow's own writer only knows doubled quotes, which Spark's reader splits only with an option.
    A value with a line break is quoted; Spark needs ``multiLine`` to read it.
    """

    name = "csv"
    suffix = ".csv"

    def __init__(self, schema: pa.Schema, options: WriteOptions) -> None:
        super().__init__(schema, options)
        self._text = value_text(options)
        dialect = self._dialect = options.csv
        self._quote, self._escape = dialect.quote, dialect.escape
        self._null, self._empty = dialect.null_value, dialect.empty_value
        if len(self._quote) != 1 or len(self._escape) != 1:
            raise BadConfigurationError("options 'quote' and 'escape' are one character each")
        if not self._null and len(schema) == 1:
            self._null = self._empty  # an empty line would be no row
        special = (dialect.sep, dialect.quote, options.line_sep, "\n", "\r")
        self._special = "|".join(re.escape(text) for text in special)
        self._special_bytes = b"".join(text.encode()[:1] for text in special)

    def validate(self) -> None:
        """Raises BadConfigurationError for nested and binary columns."""
        for field in self.schema:
            if not is_plain(field.type):
                raise unsupported(self.name, field, "cast it to string (to_json, base64), or use json or parquet")

    def settings(self) -> tuple[object, ...]:
        """Returns the dialect and the patterns."""
        # Stored forms hold a digest of this tuple: an option more, or another order, makes all chunks unfit.
        dialect, options = self._dialect, self.options
        quoting = (dialect.sep, dialect.quote, dialect.escape, dialect.quote_all, self._null, self._empty)
        return (dialect.header, *quoting, options.line_sep, options.timestamp_pattern, options.date_pattern)

    def header(self) -> str:
        """Returns the line of column names, if the option ``header`` asks for it."""
        if not self._dialect.header:
            return ""
        names = self._field(pa.array(self.schema.names, pa.string()))
        return str(self._dialect.sep.join(names.to_pylist()) + self.options.line_sep)

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """Joins the cells of each row."""
        return pc.binary_join_element_wise(*(self._field(column) for column in batch.columns), self._dialect.sep)

    def _field(self, values: pa.Array) -> pa.Array:
        text = self._text(values)
        if self._dialect.quote_all:
            return self._all_quoted(values, text)
        else:
            if holds_any(text, self._special_bytes):
                text = pc.if_else(pc.match_substring_regex(text, self._special), self._quoted(text), text)
            if is_text(values.type):
                text = pc.if_else(pc.equal(text, ""), self._empty, text)
        return pc.fill_null(text, self._null) if text.null_count else text

    def _all_quoted(self, values: pa.Array, text: pa.Array) -> pa.Array:
        """Quotes every cell, what stands for null or for an empty string included, as Spark does.

        Without a ``nullValue``, null stays without quotes: in quotes it would be an empty string for every reader.
        """
        dialect = self._dialect
        if is_text(values.type):
            # The default is written as two quotes already.
            empty = "" if dialect.empty_value == self._quote * 2 else dialect.empty_value
            text = pc.if_else(pc.equal(text, ""), empty, text)
        quoted = self._quoted(pc.fill_null(text, dialect.null_value) if dialect.null_value else text)
        return pc.fill_null(quoted, self._null) if quoted.null_count else quoted

    def _quoted(self, text: pa.Array) -> pa.Array:
        if self._escape != self._quote:
            text = pc.replace_substring(text, self._escape, self._escape * 2)
        text = pc.replace_substring(text, self._quote, self._escape + self._quote)
        return pc.binary_join_element_wise(self._quote, text, self._quote, "")
