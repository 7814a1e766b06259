"""The types of CSV columns, from the cells of some rows."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO

import pyarrow as pa
import pyarrow.csv as pacsv

from penstock.serialization.values import TimeParser

__all__ = ["infer_types"]

_TIMESTAMP = pa.timestamp("us", "UTC")


def infer_types(
    rows: Sequence[Sequence[str]], names: Sequence[str], null_value: str, times: TimeParser
) -> dict[str, pa.DataType]:
    """Returns a type for each of ``names`` that fits all cells of ``rows``, which are as a reader would see them.

    Dates and timestamps are what ``times`` reads: texts in the user's patterns, or ISO where the user gave none. A
    column in which nothing else fits, or that holds nothing, is a string.
    """
    guessed = _guess(rows, names, null_value)
    return {
        name: _with_patterns(_cells(rows, index, null_value), guessed.field(index).type, times)
        for index, name in enumerate(names)
    }


def _guess(rows: Sequence[Sequence[str]], names: Sequence[str], null_value: str) -> pa.Schema:
    """Numbers, booleans, ISO dates and timestamps, by pyarrow."""
    text = StringIO()
    # Not empty, also for a single column without a value: an empty line would be no row.
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    table = pacsv.read_csv(
        pa.BufferReader(text.getvalue().encode()),
        read_options=pacsv.ReadOptions(column_names=list(names), use_threads=False),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            null_values=["", null_value], true_values=["true", "TRUE"], false_values=["false", "FALSE"]
        ),
    )
    return table.schema


def _cells(rows: Sequence[Sequence[str]], index: int, null_value: str) -> pa.Array:
    column = [row[index] for row in rows]
    return pa.array([text for text in column if text not in ("", null_value)], pa.string())


def _with_patterns(texts: pa.Array, guessed: pa.DataType, times: TimeParser) -> pa.DataType:
    if not (pa.types.is_string(guessed) or pa.types.is_temporal(guessed)) or not len(texts):
        return pa.string() if pa.types.is_null(guessed) else guessed
    if times.date_reader is None and pa.types.is_date(guessed):
        return guessed
    if times.date_reader is not None and _fits(texts, pa.date32(), times):
        return pa.date32()
    if times.timestamp_reader is None:
        return _TIMESTAMP if pa.types.is_timestamp(guessed) or pa.types.is_date(guessed) else pa.string()
    return _TIMESTAMP if _fits(texts, _TIMESTAMP, times) else pa.string()


def _fits(texts: pa.Array, type_: pa.DataType, times: TimeParser) -> bool:
    try:
        times.column(texts, type_)
    except pa.ArrowInvalid:
        return False
    return True
