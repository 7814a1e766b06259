"""Typed columns out of whole blocks of CSV, by Arrow's parser."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from penstock.serialization.values import TimeParser, cast_column, wide_decimal
from penstock_filesystem.formats._lines import BYTE_ORDER_MARK
from penstock_filesystem.formats.csv._dialect import CsvReadDialect

__all__ = ["CsvBlockParser"]

_COLUMN = re.compile(r"^In CSV column #(\d+):")
#: Java's texts of numbers that are not finite, with blanks around them or without. Arrow takes more: in other letters.
_NOT_FINITE = pa.array(["NaN", "+NaN", "-NaN", "Infinity", "+Infinity", "-Infinity"])


class CsvBlockParser:
    """Parses blocks in which every row fits, and refuses others.

    Timestamps are tried without a zone, with one, and as text; what worked last is tried first.
    """

    def __init__(self, schema: pa.Schema, dialect: CsvReadDialect, times: TimeParser, *, multi_line: bool) -> None:
        self._schema = schema
        self._dialect = dialect
        self._times = times
        self._multi_line = multi_line
        self._not_finite = pa.array(dialect.not_finite, pa.string())
        self._attempts = [self._types(kind) for kind in self._kinds()]
        self._quoted_cell = _quoted_cell(dialect) if dialect.quote and dialect.escape else None

    def _kinds(self) -> list[str]:
        stamps = [field.type for field in self._schema if pa.types.is_timestamp(field.type)]
        if not stamps or any(map(self._times.reader_of, stamps)):
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
            elif pa.types.is_decimal(type_) and wide_decimal(type_) != type_:
                type_ = pa.string()  # the parser has no wider ones
            elif pa.types.is_floating(type_) and self._dialect.has_own_numbers:
                type_ = pa.string()
            types[field.name] = type_
        return types

    def parse(self, data: bytes) -> dict[str, pa.Array] | None:
        """Returns columns of the rows in ``data`` (UTF-8, rows ended by a line feed); ``None`` if a row does not fit.

        ``None`` says only that the rows need a closer look.
        """
        if not self._schema.names or data.startswith(BYTE_ORDER_MARK):
            return None  # the parser takes a mark for one anywhere; the file's own is left out already
        escape = self._escape_for(data)
        if escape is None:
            return None
        expected = data.count(b"\n") + (not data.endswith(b"\n"))
        exact = self._exact(data)
        for types in self._attempts:
            try:
                table = self._read(data, {**types, **exact}, escape)
                if table.num_rows != expected and not self._multi_line:
                    return None
                columns = {field.name: self._finish(table, field) for field in self._schema}
                if not self._finite_or_in_the_right_letters(columns, data, escape):
                    return None
            except (pa.ArrowInvalid, ValueError) as error:
                if not self._is_about_time(str(error)):
                    return None
                continue
            if self._attempts[0] is not types:
                self._attempts = [types, *(other for other in self._attempts if other is not types)]
            return columns
        return None

    def _exact(self, data: bytes) -> dict[str, pa.DataType]:
        """Returns the columns to take as text: whole and decimal numbers may have blanks around them for the parser,
        but not for Spark, nor for a cast.
        """
        if (b" " not in data and b"\t" not in data) or (self._dialect.trim_left and self._dialect.trim_right):
            return {}
        types = pa.types
        return {f.name: pa.string() for f in self._schema if types.is_integer(f.type) or types.is_decimal(f.type)}

    def _finite_or_in_the_right_letters(self, columns: dict[str, pa.Array], data: bytes, escape: str | bool) -> bool:
        others = [
            name
            for name, column in columns.items()
            if pa.types.is_floating(column.type) and pc.all(pc.is_finite(column)).as_py() is False
        ]
        if not others or self._dialect.has_own_numbers:  # which has looked at the letters
            return True
        texts = self._read(data, dict.fromkeys(self._schema.names, pa.string()), escape, only=others)
        for name in others:
            found = texts.column(name).combine_chunks().filter(pc.invert(pc.is_finite(columns[name])))
            if not self._are_right_letters(found):
                return False
        return True

    def _are_right_letters(self, texts: pa.Array) -> bool:
        java = pc.is_in(pc.utf8_trim_whitespace(texts), value_set=_NOT_FINITE)
        return pc.all(pc.or_(java, pc.is_in(texts, value_set=self._not_finite))).as_py() is not False

    def _own_numbers(self, texts: pa.Array, type_: pa.DataType) -> pa.Array:
        """Raises pa.ArrowInvalid for what needs a closer look."""
        number = pc.index_in(texts, value_set=self._not_finite)
        others = pc.if_else(pc.is_valid(number), pa.scalar(None, pa.string()), texts)
        numbers = cast_column(others, type_)
        if not self._are_right_letters(others.filter(pc.invert(pc.is_finite(numbers)))):
            raise pa.ArrowInvalid("numbers in other letters")
        return pc.coalesce(numbers, pa.array(list(self._dialect.not_finite.values()), type_).take(number))

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
        if quote and (quote + b" " in data or quote + b"\t" in data) and _blanks_behind(quote, dialect).search(data):
            return None  # the parser keeps blanks between a closing quote and the separator
        if not escape or not quote or escape == quote or escape not in data or quote not in data:
            return False
        if escape + quote not in data and escape + escape not in data:
            return False
        assert self._quoted_cell is not None
        if data.count(escape) != data.count(escape + quote) or escape in self._quoted_cell.sub(b"", data):
            return None  # the parser takes an escape in a cell without quotes as one, too
        return dialect.escape

    def _read(
        self, data: bytes, types: dict[str, pa.DataType], escape: str | bool, only: list[str] | None = None
    ) -> pa.Table:
        dialect = self._dialect
        # Without the last line feed: it would become part of a cell whose quote is not closed.
        end = len(data) - (not self._multi_line and data.endswith(b"\n"))
        return pacsv.read_csv(
            pa.BufferReader(pa.py_buffer(data).slice(0, end)),
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
                include_columns=only,
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
        if pa.types.is_string(array.type) and pa.types.is_floating(field.type):
            return self._own_numbers(self._finish_text(array), field.type)
        if pa.types.is_string(array.type) and not pa.types.is_string(field.type):
            array = cast_column(self._finish_text(array), field.type)
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


def _blanks_behind(quote: bytes, dialect: CsvReadDialect) -> re.Pattern[bytes]:
    blanks = " \t".replace(dialect.sep, "").encode()
    return re.compile(re.escape(quote) + b"[" + blanks + b"]+(?:" + re.escape(dialect.sep.encode()) + b"|[\r\n]|\\Z)")


def _quoted_cell(dialect: CsvReadDialect) -> re.Pattern[bytes]:
    sep, quote, escape = (re.escape(character) for character in (dialect.sep, dialect.quote, dialect.escape))
    plain = f"[^{quote}{escape}]*"
    return re.compile(
        rf"(?:\A|(?<=[{sep}\n])){quote}{plain}(?:(?:{escape}.|{quote}{quote}){plain})*{quote}".encode(), re.DOTALL
    )
