"""The types of CSV columns, from the cells of some rows."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from penstock.serialization.values import TimeParser
from penstock_filesystem.formats._text_values import FLOAT

__all__ = ["infer_types"]

_TIMESTAMP = pa.timestamp("us", "UTC")
_WHOLE = "^[+-]?[0-9]+$"
_FLOAT = rf"^(?:Inf|-Inf|[\x00- ]*(?:{FLOAT})[\x00- ]*)$"
_BOOLEAN = "^(?i:true|false)$"
_MOST_DIGITS = 38


def infer_types(
    rows: Sequence[Sequence[str]], names: Sequence[str], null_value: str, times: TimeParser
) -> dict[str, pa.DataType]:
    """Returns a type for each of ``names`` that fits all cells of ``rows``, which are as a reader would see them.

    As Spark, but a whole number is an int64 even if all are small. Dates and timestamps are what ``times`` reads: texts
    in the user's patterns, or ISO where the user gave none. A column in which nothing else fits, or that holds nothing,
    is a string. Rows may have fewer cells than there are names, or more.
    """
    types = {}
    for index, name in enumerate(names):
        column = [row[index] for row in rows if index < len(row)]
        texts = pa.array([text for text in column if text not in ("", null_value)], pa.string())
        types[name] = _type_of(texts, times) if len(texts) else pa.string()
    return types


def _type_of(texts: pa.Array, times: TimeParser) -> pa.DataType:
    if _all_match(texts, _WHOLE):
        return _whole(pc.utf8_ltrim(texts, "+"))
    if _all_match(texts, _FLOAT):
        return pa.float64()
    if _all_match(texts, _BOOLEAN):
        return pa.bool_()
    guessed = _guess(texts)
    if times.date_reader is None and pa.types.is_date(guessed):
        return guessed
    if times.date_reader is not None and _fits(texts, pa.date32(), times):
        return pa.date32()
    if times.timestamp_reader is None:
        return _TIMESTAMP if pa.types.is_timestamp(guessed) or pa.types.is_date(guessed) else pa.string()
    return _TIMESTAMP if _fits(texts, _TIMESTAMP, times) else pa.string()


def _all_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _whole(texts: pa.Array) -> pa.DataType:
    try:
        texts.cast(pa.int64())
    except pa.ArrowInvalid:
        digits = pc.max(pc.utf8_length(pc.utf8_ltrim(texts, "-0"))).as_py()
        return pa.decimal128(digits, 0) if digits <= _MOST_DIGITS else pa.float64()
    return pa.int64()


def _guess(texts: pa.Array) -> pa.DataType:
    """ISO dates and timestamps, by pyarrow."""
    text = StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([text] for text in texts.to_pylist())
    table = pacsv.read_csv(
        pa.BufferReader(text.getvalue().encode()),
        read_options=pacsv.ReadOptions(column_names=["text"], use_threads=False),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(null_values=[]),  # not "NaN", "NA" and others
    )
    return table.schema.field(0).type


def _fits(texts: pa.Array, type_: pa.DataType, times: TimeParser) -> bool:
    try:
        times.column(texts, type_)
    except pa.ArrowInvalid:
        return False
    return True
