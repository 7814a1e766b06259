"""Spark's DDL as Arrow types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.serialization.ddl import format_type, parse_type


def fields(*named):
    return pa.struct([pa.field(*one) for one in named])


def array(element):
    return pa.list_(pa.field("element", element))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id long, name STRING", fields(("id", pa.int64()), ("name", pa.string()))),
        ("a: int, b boolean", fields(("a", pa.int32()), ("b", pa.bool_()))),
        ("a byte, b smallint, c real, d double", fields(
            ("a", pa.int8()), ("b", pa.int16()), ("c", pa.float32()), ("d", pa.float64()))),
        ("a date, b timestamp, c timestamp_ntz, d binary", fields(
            ("a", pa.date32()), ("b", pa.timestamp("us", tz="UTC")), ("c", pa.timestamp("us")), ("d", pa.binary()))),
        ("a decimal, b decimal(5), c numeric(20, 3)", fields(
            ("a", pa.decimal128(10, 0)), ("b", pa.decimal128(5, 0)), ("c", pa.decimal128(20, 3)))),
        ("v varchar(10), c char(3)", fields(("v", pa.string()), ("c", pa.string()))),
        ("`odd name``s` int NOT NULL COMMENT 'it is', x int", fields(
            ("odd name`s", pa.int32(), False), ("x", pa.int32()))),
        ("a array<int>, m map<string, array<long>>", fields(
            ("a", array(pa.int32())), ("m", pa.map_(pa.string(), array(pa.int64()))))),
        ("s struct<a: int, b: struct<c: string>>, t struct<>", fields(
            ("s", fields(("a", pa.int32()), ("b", fields(("c", pa.string()))))), ("t", pa.struct([])))),
        ("struct<a: int>", fields(("a", pa.int32()))),
        ("array<struct<a int>>", array(fields(("a", pa.int32())))),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        (" long ", pa.int64()),
    ],
)  # fmt: skip
def test_types(text, expected):
    assert parse_type(text).equals(expected, check_metadata=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the schema is empty"),
        ("id lng", "'lng' is not a type; did you mean 'long'?"),
        ("id", "'id' is not a type"),
        ("id long name string", "expected ',', found 'name'"),
        ("id long,", "expected a column's name, found ''"),
        ("1 long", "expected a column's name, found '1'"),
        ("a array<int", "expected '>', found 'the end'"),
        ("a array int", "expected '<', found 'int'"),
        ("a map<string>", "expected ',', found '>'"),
        ("a decimal(50, 2)", "must have 1 to 38 digits"),
        ("a decimal(5, 6)", "must have 1 to 38 digits"),
        ("a decimal(x)", "expected a number in the brackets"),
        ("a decimal(1,2,3)", "hold 1 to 2 numbers, not 3"),
        ("a varchar()", "hold 1 to 1 numbers, not 0"),
        ("a int not", "expected 'null', found 'the end'"),
        ("array<int> x", "unexpected 'x'"),
        ("a", "'a' is not a type"),
        ("a ", "'a' is not a type"),
        ("x struct<a: >", "'>' is not a type"),
        ("x struct<a", "the schema ends too early"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(ValueError) as caught:
        parse_type(text)
    assert message in str(caught.value)


ODD_NAMES = fields(("a b`", array(fields(("x", pa.map_(pa.string(), pa.decimal128(9, 2)))))), ("é", pa.binary()))


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (ODD_NAMES, ODD_NAMES),
        (pa.struct([]), pa.struct([])),
        (pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.large_list(pa.large_string()), array(pa.string())),
        (pa.list_(pa.binary(3), 2), array(pa.binary())),
        (pa.dictionary(pa.int8(), pa.string_view()), pa.string()),
        *((one, one) for one in (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.date32())),
    ],
)
def test_types_are_written_as_they_are_read(type_, expected):
    assert parse_type(format_type(type_)) == expected


@pytest.mark.parametrize("type_", [pa.uint32(), pa.time64("us"), pa.duration("s"), pa.null(), pa.decimal256(60, 2)])
def test_types_that_spark_has_not_got(type_):
    with pytest.raises(ValueError, match="Spark has no type for"):
        format_type(pa.list_(type_))
