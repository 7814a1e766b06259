"""Typed columns out of whole blocks of CSV, by Arrow's parser."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from penstock.serialization.values import TimeParser
from penstock_filesystem.formats.csv._dialect import CsvReadDialect

__all__ = ["CsvBlockParser"]

_COLUMN = re.compile(r"^In CSV column #(\d+):")


class CsvBlockParser:
    """Parses blocks in which every row fits, and refuses others.

    Timestamps are tried without a zone, with one, and as text; what worked last is tried first.
    """

    def __init__(self, schema: pa.Schema, dialect: CsvReadDialect, times: TimeParser, *, multi_line: bool) -> None:
        self._schema = schema
        self._dialect = dialect
        self._times = times
        self._multi_line = multi_line
        self._attempts = [self._types(kind) for kind in self._kinds()]

    def _kinds(self) -> list[str]:
        stamps = [field.type for field in self._schema if pa.types.is_timestamp(field.type)]
        if not stamps or self._times.timestamp_reader is not None:
            return ["text"]
        return ["naive", "zoned", "text"] if any(type_.tz is not None for type_ in stamps) else ["naive", "text"]

    def _types(self, kind: str) -> dict[str, pa.DataType]:
        types = {}
        for field in self._schema:
            type_ = field.type
            if pa.types.is_timestamp(type_):
                naive = kind == "naive" or (kind == "zoned" and type_.tz is None)
                type_ = pa.string() if kind == "text" else pa.timestamp("us", None if naive else "UTC")
            elif pa.types.is_date(type_) and self._times.date_reader is not None:
                type_ = pa.string()
            types[field.name] = type_
        return types

    def parse(self, data: bytes) -> dict[str, pa.Array] | None:
        """Returns columns of the rows in ``data`` (UTF-8, rows ended by a line feed); ``None`` if a row does not fit.

        ``None`` says only that the rows need a closer look.
        """
        if not self._schema.names:
            return None
        escape = self._escape_for(data)
        if escape is None:
            return None
        expected = data.count(b"\n") + (not data.endswith(b"\n"))
        for types in self._attempts:
            try:
                table = self._read(data, types, escape)
                if table.num_rows != expected and not self._multi_line:
                    return None
                columns = {field.name: self._finish(table, field) for field in self._schema}
            except (pa.ArrowInvalid, ValueError) as error:
                if not self._is_about_time(str(error)):
                    return None
                continue
            if self._attempts[0] is not types:
                self._attempts = [types, *(other for other in self._attempts if other is not types)]
            return columns
        return None

    def _is_about_time(self, message: str) -> bool:
        """Returns whether another way to read timestamps may help; if in doubt, yes."""
        if "Expected" in message and "columns" in message:
            return False
        column = _COLUMN.search(message)
        return column is None or pa.types.is_timestamp(self._schema.field(int(column[1])).type)

    def _escape_for(self, data: bytes) -> str | bool | None:
        """Returns the escape character to pass to Arrow; ``None`` where Arrow takes it in another way than Spark."""
        dialect = self._dialect
        escape, quote = dialect.escape.encode(), dialect.quote.encode()
        if (dialect.trim_left or dialect.trim_right) and quote and quote in data:
            # Blanks are cut from cells without quotes only, and the parser does not tell which these were.
            return None
        if not escape or not quote or escape == quote or escape not in data or quote not in data:
            return False
        if escape + quote not in data and escape + escape not in data:
            return False
        return dialect.escape if data.count(escape) == data.count(escape + quote) else None

    def _read(self, data: bytes, types: dict[str, pa.DataType], escape: str | bool) -> pa.Table:
        dialect = self._dialect
        return pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(
                use_threads=False, column_names=self._schema.names, block_size=max(len(data) + 1, 64)
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=dialect.sep,
                quote_char=dialect.quote or False,
                double_quote=bool(dialect.quote),
                escape_char=escape,
                newlines_in_values=self._multi_line,
                ignore_empty_lines=False,
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=types,
                null_values=["", dialect.null_value],
                strings_can_be_null=True,
                quoted_strings_can_be_null=not (dialect.null_value or dialect.empty_value),
                true_values=["true", "TRUE", "True"],
                false_values=["false", "FALSE", "False"],
            ),
        )

    def _finish(self, table: pa.Table, field: pa.Field) -> pa.Array:
        column = table.column(field.name)
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if pa.types.is_timestamp(field.type):
            if pa.types.is_timestamp(array.type) and array.type.tz is None:
                return self._times.localize(array, field.type)
            return self._times.column(array, field.type) if pa.types.is_string(array.type) else array.cast(field.type)
        if pa.types.is_date(field.type) and pa.types.is_string(array.type):
            return self._times.column(array, field.type)
        if pa.types.is_decimal(field.type):
            array.validate(full=True)  # the parser looks at a number's digits before it scales it
        return self._finish_text(array) if pa.types.is_string(array.type) else array

    def _finish_text(self, array: pa.Array) -> pa.Array:
        dialect = self._dialect
        if dialect.trim_left:
            array = pc.utf8_ltrim_whitespace(array)
        if dialect.trim_right:
            array = pc.utf8_rtrim_whitespace(array)
        null = pa.scalar(None, pa.string())
        if dialect.trim_left or dialect.trim_right:
            array = pc.if_else(pc.equal(array, ""), null, array)
        if dialect.empty_value:
            array = pc.if_else(pc.equal(array, ""), dialect.empty_value, array)
        if dialect.null_value:
            array = pc.if_else(pc.equal(array, dialect.null_value), null, array)
        return array
