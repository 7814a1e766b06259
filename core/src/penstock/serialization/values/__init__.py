"""Values and their text, for formats of files and records: each kind of value has one form for all readers and writers.

Whole columns go without a loop over rows. Where rows need a closer look, single values are read to the same result.
"""

from penstock.serialization.values._decimals import cast_column, fit_decimal, read_decimal, wide_decimal
from penstock.serialization.values._json_loose import JsonDialect, LooseJson
from penstock.serialization.values._json_read import (
    NOT_JSON,
    JsonColumns,
    ValueConverter,
    json_decoder,
    json_text,
    value_converter,
)
from penstock.serialization.values._json_write import JsonWriter, why_not_json
from penstock.serialization.values._text import ValueText, concatenated, holds_any, is_plain, is_text
from penstock.serialization.values._time_reader import TimeReader
from penstock.serialization.values._time_writer import TimeWriter
from penstock.serialization.values._times import TimeParser
from penstock.serialization.values._zones import check_zone, zone_of

__all__ = [
    "NOT_JSON",
    "JsonColumns",
    "JsonDialect",
    "JsonWriter",
    "LooseJson",
    "TimeParser",
    "TimeReader",
    "TimeWriter",
    "ValueConverter",
    "ValueText",
    "cast_column",
    "check_zone",
    "concatenated",
    "fit_decimal",
    "holds_any",
    "is_plain",
    "is_text",
    "json_decoder",
    "json_text",
    "read_decimal",
    "value_converter",
    "why_not_json",
    "wide_decimal",
    "zone_of",
]
