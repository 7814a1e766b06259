"""Every type that a column can have: what Arrow has is what the table has."""

from __future__ import annotations

import datetime
import json
import uuid
from decimal import Context, Decimal

import pyarrow as pa
import pytest
from penstock_postgres import PostgresConnector

from penstock.errors import BadConfigurationError, BadDataError
from penstock.testing import SourceQuery

UTC = datetime.timezone.utc
DAY, MOMENT = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 23, 59, 59, 999999)
#: The type of the column, that of the rows, and values; ``...`` stands for what PostgreSQL shows where that differs.
CASES = [
    ("boolean", pa.bool_(), [True, False]),
    ("smallint", pa.int8(), [-128, 127]),
    ("smallint", pa.int64(), [-(2**15), 2**15 - 1]),
    ("integer", pa.int32(), [-(2**31), 2**31 - 1, 0]),
    ("bigint", pa.int64(), [-(2**63), 2**63 - 1, 0]),
    ("real", pa.float32(), [1.5, float("-inf"), -0.0]),
    ("double precision", pa.float64(), [1e308, 5e-324, float("inf")]),
    ("double precision", pa.float32(), [0.5]),
    ("numeric(38, 0)", pa.decimal128(38, 0), [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0)]),
    ("numeric(38, 38)", pa.decimal128(38, 38), [Decimal("0." + "9" * 38), Decimal("-1e-38")]),
    ("numeric(10, 2)", pa.decimal128(10, 2), [Decimal("-12345678.90"), Decimal("0.01"), Decimal("100.00")]),
    ("numeric(10, 3)", pa.decimal128(8, 3), [Decimal("10000.001"), Decimal("-0.010")]),
    ("numeric(12, 5)", pa.decimal128(12, 5), [Decimal("1234567.00001"), Decimal("-1.10000")]),
    ("numeric", pa.int64(), [Decimal(2**63 - 1), Decimal(-10_000)]),
    ("text", pa.string(), ["", "é€😀", "x" * 100_000, "a\tb\n\\N\r"]),
    ("text", pa.large_string(), ["large"]),
    ("varchar(5)", pa.string(), ["abcde"]),
    ("char(3)", pa.string(), ["abc"]),
    ("json", pa.string(), ['{"a": [1, 2]}']),
    ("jsonb", pa.string(), ['{"a": [1, 2]}', "[]"]),
    ("uuid", pa.string(), ["6f1c8ee0-43e2-4b7c-9d0a-ABCDEF012345", "0" * 32]),
    ("bytea", pa.binary(), [b"", b"\x00\xff", b"y" * 1000]),
    ("date", pa.date32(), [DAY, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    ("timestamp", pa.timestamp("us"), [MOMENT, datetime.datetime(1, 1, 1), datetime.datetime(1999, 12, 31, 23)]),
    ("timestamptz", pa.timestamp("us", "UTC"), [MOMENT.replace(tzinfo=UTC)]),
    ("mood", pa.string(), ["happy"]),
    ("positive", pa.int32(), [1]),
]
REFUSED = [
    ("smallint", pa.int32(), 2**15),
    ("integer", pa.int64(), 2**31),
    ("numeric(4, 1)", pa.decimal128(10, 1), Decimal("12345.0")),
    ("varchar(5)", pa.string(), "abcdef"),
    ("text", pa.string(), "a\0b"),
    ("uuid", pa.string(), "6f1c8ee0"),
    ("json", pa.string(), "{"),
    ("mood", pa.string(), "sad"),
    ("positive", pa.int32(), -1),
    ("date", pa.date32(), 2**31 - 1),
    ("timestamp", pa.timestamp("us"), -(2**63)),
    ("integer not null", pa.int32(), None),
]


def comparable(value):
    if isinstance(value, uuid.UUID):
        return value.hex
    return json.dumps(value) if isinstance(value, dict | list) else value


def as_written(column, value):
    return value.replace("-", "").lower() if column == "uuid" and value is not None else value


@pytest.mark.parametrize(("column", "kind", "values"), CASES)
def test_values_arrive_as_they_are(postgres, types, write, column, kind, values):
    table = postgres.table(f"id int, cell {column}, after text")
    cells = [*values, None, *values, None]
    batch = pa.record_batch(
        [range(len(cells)), pa.array(cells, kind), [f"row {i}" for i in range(len(cells))]], ["id", "cell", "after"]
    )
    batch = batch.set_column(0, "id", batch.column(0).cast(pa.int32()))
    write(table, batch, batch.slice(1, 2), batch.slice(0, len(values)))
    found = postgres.run(f"select id, cell, after from {table} order by id, ctid")
    expected = [(i, as_written(column, cell), f"row {i}") for i, cell in enumerate(cells)]
    expected = sorted([*expected, *expected[1:3], *expected[: len(values)]], key=lambda row: row[0])
    assert [(i, comparable(cell), after) for i, cell, after in found] == expected


def as_read(column, cell):
    """Numbers keep their places; what Arrow has no type for comes as PostgreSQL's own text."""
    if column == "uuid" and cell is not None:
        digits = as_written(column, cell)
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return cell


@pytest.mark.parametrize(("column", "kind", "values"), CASES)
def test_values_are_read_as_they_were_written(postgres, types, write, column, kind, values):
    table = postgres.table(f"id int primary key, cell {column}")
    cells = [*values, None]
    write(table, pa.record_batch([pa.array(range(len(cells)), pa.int32()), pa.array(cells, kind)], ["id", "cell"]))
    options = PostgresConnector.source_options.parse(postgres.options(table), owner="source")
    source = PostgresConnector().create_source(options)
    schema = source.fixed_schema()
    rows = SourceQuery(source, schema).read_all_now()
    read = [row["cell"] for row in sorted(rows, key=lambda row: row["id"])]
    assert list(map(repr, map(plain, read))) == [repr(plain(as_read(column, cell))) for cell in cells]
    if column.startswith("numeric("):
        assert column == f"numeric({schema.field('cell').type.precision}, {schema.field('cell').type.scale})"


def plain(value):
    """As text, so that 0.0 is not -0.0; a decimal without its places, which its type has."""
    if isinstance(value, Decimal):
        return value.normalize(Context(prec=50))
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value


@pytest.mark.parametrize(("column", "kind", "value"), REFUSED)
def test_values_that_do_not_fit_are_refused(postgres, types, write, column, kind, value):
    table = postgres.table(f"cell {column}")
    with pytest.raises(BadDataError):
        write(table, pa.record_batch([pa.array([value], kind)], ["cell"]))
    assert postgres.run(f"select * from {table}") == []


@pytest.mark.parametrize(
    ("columns", "schema", "message"),
    [
        ("a int", {"b": pa.int32()}, "has no column 'b': it has a"),
        ("a int", {"a": pa.string()}, "can't be written as int4: cast it"),
        ("a inet", {"a": pa.string()}, "inet .known are"),
        ("a int, b text not null", {"a": pa.int32()}, "needs a value in b"),
        ("a int, b int generated always as (a + 1) stored", {"b": pa.int32()}, "is generated"),
    ],
)
def test_columns_that_do_not_fit_are_refused(postgres, columns, schema, message):
    options = PostgresConnector.sink_options.parse(postgres.options(postgres.table(columns)), owner="sink")
    with pytest.raises(BadConfigurationError, match=message):
        PostgresConnector().create_sink(options, pa.schema(schema)).validate_schema(pa.schema(schema))
