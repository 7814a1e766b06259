"""Columns in the names of directories, as in ``day=2026-01-01/hour=3/``: what Hive, Spark and our sink write."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from typing import Any

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError
from penstock.serialization.ddl import shown_type
from penstock.serialization.values import TimeParser
from penstock.source import ColumnFilter
from penstock_filesystem.formats import DECIMAL, NULL_PARTITION, cell_converter, unescape_path_name
from penstock_filesystem.source.discovery import glob_to_regex

__all__ = ["PartitionColumns"]

_WHOLE = re.compile(r"[+-]?\d+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r" (?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d)?")
_ZONED = pa.timestamp("us", "UTC")
_MOST_DIGITS = 38
#: Types of which a column of several values has the later one.
_NUMBERS = (pa.int32(), pa.int64())


class PartitionColumns:
    """Finds them in paths. Picklable; holds no state.

    As in Spark, the columns of a file are the innermost directories ``name=value`` that follow each other, below its
    base: ``base_path``, or else the path of ``roots`` (with wildcards or without) that it was found under. Values are
    texts, typed by the schema of the read, or inferred as Spark infers them. Timestamps are in the zone of ``times``.
    """

    def __init__(self, roots: Sequence[str], base_path: str | None, times: TimeParser) -> None:
        bases = [base_path.rstrip("/")] if base_path is not None else [root.rstrip("/") for root in roots]
        self._bases = [re.compile("/".join(map(_part, base.split("/"))) + "(?=/|$)") for base in bases]
        self._times = times

    def texts(self, path: str) -> dict[str, str | None]:
        """Returns the columns of a file, outermost first, with their texts (``None``: null). Raises as :meth:`raw`."""
        return {name: _text(value) for name, value in self.raw(path).items()}

    def raw(self, path: str) -> dict[str, str]:
        """Returns the columns of a file, outermost first, with what directories are called.

        Raises BadConfigurationError for a directory without a name or a value, and for two of one name.
        """
        below = max((match.end() for base in self._bases if (match := base.match(path))), default=len(path))
        found: list[tuple[str, str]] = []
        for part in reversed(path[below:].split("/")[:-1]):
            name, equals, value = part.partition("=")
            if equals and not (name and value):
                raise BadConfigurationError(f"{path}: the directory '{part}' has no {'value' if name else 'name'}")
            if equals:
                found.append((unescape_path_name(name), value))
            elif found:
                break
        columns = dict(reversed(found))
        if len({name.lower() for name in columns}) < len(found):
            raise BadConfigurationError(f"{path}: two directories have the same name")
        return columns

    def values(self, path: str, schema: pa.Schema) -> dict[str, Any]:
        """Returns the columns of ``schema`` that the directories of a file hold, as values of their types.

        Names match exactly, or else without regard to case. Raises BadDataError for a value that does not fit.
        """
        found = {}
        for name, text in self.texts(path).items():
            field = _field_of(name, schema)
            if field is not None:
                found[field.name] = None if text is None else self._value(text, field, path)
        return found

    def without(self, path: str, schema: pa.Schema) -> pa.Schema:
        """Returns the columns of ``schema`` that the directories of a file do not hold."""
        fields = (_field_of(name, schema) for name in self.texts(path))
        held = {field.name for field in fields if field is not None}
        return pa.schema([field for field in schema if field.name not in held]) if held else schema

    def _value(self, text: str, field: pa.Field, path: str) -> Any:
        try:
            return pa.scalar(cell_converter(field.type, self._times)(text), field.type).as_py()
        except (ValueError, OverflowError, pa.ArrowException) as error:
            raise BadDataError(
                f"{path}: the directory of column '{field.name}' holds '{text}', which does not fit "
                f"{shown_type(field.type)}: {error}; correct the schema"
            ) from None

    # --- the schema of a read without one -----------------------------------------------------------------------------

    def infer(self, paths: Iterable[str]) -> list[pa.Field]:
        """Returns the columns of all files, typed as Spark does. Files in no such directory do not count.

        Names that differ in case only are one, as in Spark: as the first directory has it. Raises BadConfigurationError
        for files that have different ones.
        """
        by_directory = {path.rpartition("/")[0]: path for path in paths}
        columns = [(path, raw) for path in by_directory.values() if (raw := self.raw(path))]
        for (first, one), (second, other) in pairwise(columns):
            if [name.lower() for name in one] != [name.lower() for name in other]:
                raise BadConfigurationError(
                    f"directories have different columns: {', '.join(one)} ({first}) and {', '.join(other)} "
                    f"({second}). Read them one by one, or set recursiveFileLookup to true, which takes none"
                )
        if not columns:
            return []
        names = min(columns)[1]
        values = zip(*(raw.values() for _, raw in columns), strict=True)
        return [pa.field(name, _type_of(set(column))) for name, column in zip(names, values, strict=True)]

    # --- filters ------------------------------------------------------------------------------------------------------

    def may_hold(self, path: str, filters: Collection[ColumnFilter]) -> bool:
        """Returns whether a file may have rows that meet all ``filters``, by what its directories say."""
        texts = self.texts(path) if filters else {}
        return all(one.column not in texts or self._may_meet(texts[one.column], one) for one in filters)

    def _may_meet(self, text: str | None, one: ColumnFilter) -> bool:
        if one.operator in ("is null", "is not null"):
            return (text is None) == (one.operator == "is null")
        if text is None:
            return False
        wanted = one.value if one.operator == "in" else (one.value,)
        try:
            return any(_holds(one.operator, self._like(text, value), value) for value in wanted)
        except (ValueError, TypeError, ArithmeticError, pa.ArrowException):
            return True  # the task says what is wrong, if anything is

    def _like(self, text: str, value: Any) -> Any:
        """Returns a text as what the column has, going by a value of it. Raises ValueError if that does not tell."""
        type_ = pa.scalar(value).type
        if isinstance(value, float):
            raise ValueError("a column of floats holds another number than one of doubles")
        if isinstance(value, Decimal):
            number = Decimal(text)
            if number.quantize(value) != number:
                raise ValueError("the column's scale is smaller, so it holds a rounded number")
            return number
        if isinstance(value, datetime) and value.tzinfo is not None:
            type_ = _ZONED
        return pa.scalar(cell_converter(type_, self._times)(text), type_).as_py()


def _holds(operator: str, left: Any, right: Any) -> bool:
    if operator in ("=", "in"):
        return bool(left == right)
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator])


def _part(text: str) -> str:
    return glob_to_regex(text).pattern


def _field_of(name: str, schema: pa.Schema) -> pa.Field | None:
    if name in schema.names:
        return schema.field(name)
    return next((field for field in schema if field.name.lower() == name.lower()), None)


def _text(raw: str) -> str | None:
    return None if raw == NULL_PARTITION else unescape_path_name(raw)


def _type_of(names: Collection[str]) -> pa.DataType:
    types = [_type_of_name(name) for name in names if name != NULL_PARTITION]
    return reduce(_wider, types) if types else pa.string()


def _type_of_name(text: str) -> pa.DataType:
    """Only a time may have escapes, as Spark has it."""
    if _WHOLE.fullmatch(text):
        for type_ in _NUMBERS:
            if -(1 << type_.bit_width - 1) <= int(text) < 1 << type_.bit_width - 1:
                return type_
    return _number(text) or _time(unescape_path_name(text)) or pa.string()


def _number(text: str) -> pa.DataType | None:
    """A decimal without a fraction, as 1e5 is one; any other number is a double."""
    try:
        cell_converter(pa.float64(), _NO_TIMES)(text)
    except ValueError:
        return None
    if text in ("Inf", "-Inf"):
        return None
    if DECIMAL.fullmatch(text):
        _, digits, exponent = Decimal(text).as_tuple()
        if isinstance(exponent, int) and exponent >= 0 and len(digits) + exponent <= _MOST_DIGITS:
            return pa.decimal128(len(digits) + exponent, 0)
    return pa.float64()


def _time(text: str) -> pa.DataType | None:
    day, time = text[:10], text[10:]
    try:
        is_day = _DATE.fullmatch(day) is not None and date.fromisoformat(day) is not None
    except ValueError:
        return None
    if not is_day or (time and not _TIME.fullmatch(time)):
        return None
    return _ZONED if time else pa.date32()


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Returns the type of a column that has values of both."""
    if one == other:
        return one
    both = {one, other}
    if both == set(_NUMBERS):
        return pa.int64()
    if both == {pa.int32(), pa.float64()}:
        return pa.float64()
    if both == {pa.date32(), _ZONED}:
        return _ZONED
    if all(type_ in _NUMBERS or pa.types.is_decimal(type_) for type_ in both):
        return pa.decimal128(max(map(_digits, both)), 0)
    return pa.string()


def _digits(type_: pa.DataType) -> int:
    """Returns the digits of a decimal that holds all values of a type. Of whole numbers, Spark counts the most."""
    return type_.precision if pa.types.is_decimal(type_) else {pa.int32(): 10, pa.int64(): 20}[type_]


_NO_TIMES = TimeParser("UTC")
