"""Columns of the rows that go to columns of other names, and have their own way with nulls."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.sink import SinkContext, WriterContext
from penstock_cassandra import CassandraConnector, column, columns_of
from penstock_cassandra.options._columns import parse_columns

STAMP = 1_700_000_000_000_000


@dataclass
class Reading:
    """What the rows are."""

    sensor: str = column("id")
    day: int = 0
    celsius: float | None = column("temperature", nulls="unset", default=None)
    note: str | None = None


@pytest.fixture
def readings(cassandra):
    return cassandra.table("id text, day int, temperature double, note text, primary key (id, day)")


def write(cassandra, table, rows, stamp=STAMP, **options):
    given = {**cassandra.options, "table": table, **options}
    schema = pa.schema(
        [("sensor", pa.string()), ("day", pa.int64()), ("celsius", pa.float64()), ("note", pa.string())]
        + ([("gone", pa.bool_())] if "deleteColumn" in options else [])
    )
    connector = CassandraConnector()
    sink = connector.create_sink(connector.sink_options.parse(given, owner="sink"), schema)
    sink.validate_schema(schema)
    context = WriterContext("q", schema, Metrics(), write_timestamp_us=stamp, attempt_id="attempt")
    writer = sink.start(SinkContext("q", schema)).create_writer(context)
    writer.write(pa.RecordBatch.from_pylist(rows, schema))
    writer.prepare_commit()
    writer.close()


def seen(cassandra, table):
    return sorted(cassandra.rows(table, "id, day, temperature, note"))


@pytest.mark.parametrize("given", [columns_of(Reading), f"{__name__}:Reading"], ids=["json", "class"])
def test_a_dataclass_says_where_columns_go_and_what_their_nulls_do(cassandra, readings, given):
    first = {"sensor": "a", "day": 1, "celsius": 20.5, "note": "n"}
    write(cassandra, readings, [first], columns=given)
    write(cassandra, readings, [{"sensor": "a", "day": 1}], STAMP + 1, columns=given)
    assert seen(cassandra, readings) == [("a", 1, 20.5, None)]


def test_a_mapping_names_only_what_differs_and_deletes_find_their_key(cassandra, readings):
    columns = json.dumps({"sensor": "id", "celsius": {"name": "temperature", "nulls": "delete"}})
    rows = [{"sensor": s, "day": 2, "celsius": 1.0, "note": "n", "gone": False} for s in "abc"]
    options = {"columns": columns, "deleteColumn": "gone", "nulls": "unset"}
    write(cassandra, readings, rows, **options)
    again = [{**rows[0], "gone": True}, {"sensor": "b", "day": 2, "gone": None}]
    write(cassandra, readings, again, STAMP + 1, **options)
    assert seen(cassandra, readings) == [("b", 2, None, "n"), ("c", 2, 1.0, "n")]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ('{"sensr": "id"}', "no column 'sensr'.*sensor"),
        ('{"sensor": "idd", "celsius": "temperature"}', "no column 'idd'"),
        ('{"sensor": "id", "celsius": "note"}', "both go to 'note'"),
        ('{"celsius": "temperature"}', "no column 'sensor'"),
        ('{"sensor": {"nam": "id"}}', "there is no 'nam'.*name"),
        ('{"sensor": {"name": "id", "nulls": "skip"}}', "delete, unset, not 'skip'"),
        ('{"sensor": 1}', "give a name"),
        ('{"sensor": "id", "day": "id"}', "two columns of the rows go to 'id'"),
        ('{"sensor"', "not JSON"),
        ("json:JSONDecoder", "not a dataclass"),
        ("nowhere:Reading", "can't be imported"),
    ],
)
def test_what_does_not_fit_is_told(cassandra, readings, columns, words):
    with pytest.raises(BadConfigurationError, match=words):
        write(cassandra, readings, [{"sensor": "a", "day": 1}], columns=columns)


def test_json_that_is_nested_too_deeply_is_told():
    with pytest.raises(BadConfigurationError, match="not JSON"):
        parse_columns('{"sensor": ' + "[" * 100_000)


def test_a_dataclass_is_checked_where_it_is_written():
    with pytest.raises(ValueError, match="not 'skip'"):
        column("x", nulls="skip")
    with pytest.raises(TypeError, match="not a dataclass"):
        columns_of(str)
