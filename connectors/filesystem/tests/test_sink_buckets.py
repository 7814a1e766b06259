"""Bucket assigners, rolling policies and the options that choose them."""

from __future__ import annotations

import os
from datetime import date, datetime, time, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from penstock.errors import BadConfigurationError, BadDataError
from penstock.options import Option
from penstock.serialization.values import TimeWriter
from penstock_filesystem.formats import escape_path_name
from penstock_filesystem.options import SINK_OPTIONS, SinkOptions
from penstock_filesystem.sink import BucketAssigner, PartFileInfo, RollingPolicy, create_sink
from penstock_filesystem.sink._buckets import create_bucket_assigner, split_by_bucket

NOW_MS = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
TIMES = [datetime(2013, 1, 1, 4, 59, 59, 999999), None, datetime(2013, 6, 30, 22, 0), datetime(2013, 1, 1, 4, 0)]


def options(**given):
    return SinkOptions.from_values(SINK_OPTIONS.parse({"path": "/nowhere", **given}, owner="sink"))


def assigned(batch, **given):
    ids = create_bucket_assigner(options(**given)).bucket_ids(batch, NOW_MS)
    return ids if isinstance(ids, str) else ids.to_pylist()


def times(kind):
    return pa.RecordBatch.from_pydict({"at": pa.array(TIMES).cast(pa.timestamp("us")).cast(kind)})


def test_hourly_by_processing_time_is_the_default():
    assert assigned(times(pa.timestamp("us"))) == "2023-11-14--22"


def test_event_time_in_a_time_zone():
    batch = times(pa.timestamp("us", "UTC"))
    names = assigned(batch, bucketColumn="at", bucketTimeZone="America/New_York")
    assert names == ["2012-12-31--23", "no-time", "2013-06-30--18", "2012-12-31--23"]
    names = assigned(batch, bucketColumn="at", bucketPattern="yyyy/MM/dd", bucketTimeZone="Asia/Kolkata")
    assert names == ["2013/01/01", "no-time", "2013/07/01", "2013/01/01"]


def test_event_time_without_a_time_zone_is_taken_as_it_is():
    names = assigned(times(pa.timestamp("us")), bucketColumn="at", bucketTimeZone="America/New_York")
    assert names == ["2013-01-01--04", "no-time", "2013-06-30--22", "2013-01-01--04"]
    assert (
        assigned(times(pa.date32()), bucketColumn="at", bucketPattern="'y'yyyy") == ["y2013", "no-time"] + ["y2013"] * 2
    )


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy-MM-dd--HH", "2013-01-02--03"),
        ("'day='yyyyMMdd/'hour='HH", "day=20130102/hour=03"),
        ("yy DDD E", "13 002 Wed"),
        ("HH:mm:ss", "03:04:05"),
        ("hh a", "03 AM"),
        ("'o''clock' 100%", "o'clock 100%"),
        ("ss.SSS", "05.678"),
    ],
)
def test_java_patterns(pattern, expected):
    value = pa.array([datetime(2013, 1, 2, 3, 4, 5, 678901)], pa.timestamp("us"))
    assert TimeWriter("bucketPattern", pattern).write(value).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("pattern", "culprit"), [("YYYY-MM", "YYYY"), ("G", "'G'"), ("yyyy'", "quote"), ("yyyy[-MM]", "optional")]
)
def test_patterns_that_are_not_understood_are_refused(pattern, culprit):
    with pytest.raises(BadConfigurationError, match="bucketPattern") as error:
        create_bucket_assigner(options(bucketPattern=pattern))
    assert culprit in str(error.value)


@pytest.mark.parametrize("pattern", ["../yyyy", "/yyyy", "yyyy//MM", "yyyy/", "'_'yyyy", "'.'yyyy"])
def test_directories_that_are_refused_are_refused_at_the_start(pattern):
    with pytest.raises(BadConfigurationError, match=r"option 'bucketPattern', .* a bucket is a relative path"):
        create_bucket_assigner(options(bucketPattern=pattern))


def test_columns_are_named_as_hive_names_them():
    batch = pa.RecordBatch.from_pydict(
        {
            "b": pa.array([True, None]),
            "d": pa.array([date(2013, 1, 2), date(2013, 1, 3)]),
            "s": pa.array(["a b/c:é=%", ""]),
            "t": pa.array([datetime(2026, 1, 2, 3, 4, 5, 120000, timezone.utc)] * 2, pa.timestamp("us", "UTC")),
            "f": pa.array([1.0, 2.5]),
            "v": pa.array([1, 2]),
        }
    )
    assert assigned(batch, partitionColumns="b, d,s,t,f") == [
        "b=true/d=2013-01-02/s=a b%2Fc%3Aé%3D%25/t=2026-01-02 03%3A04%3A05.12/f=1.0",
        "b=__HIVE_DEFAULT_PARTITION__/d=2013-01-03/s=__HIVE_DEFAULT_PARTITION__/t=2026-01-02 03%3A04%3A05.12/f=2.5",
    ]
    assert escape_path_name("x~*?#[]{}^'\"\\ü\n.") == "x~%2A%3F%23%5B%5D%7B}%5E%27%22%5Cü%0A."


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        (100.0, pa.float64(), "100.0"),
        (1e7, pa.float64(), "1.0E7"),
        (-12345678.9, pa.float64(), "-1.23456789E7"),
        (1e20, pa.float64(), "1.0E20"),
        (1e-4, pa.float64(), "1.0E-4"),
        (0.001, pa.float64(), "0.001"),
        (-0.0, pa.float64(), "-0.0"),
        (float("nan"), pa.float64(), "NaN"),
        (float("-inf"), pa.float64(), "-Infinity"),
        (0.1, pa.float32(), "0.1"),
        (Decimal("0E-10"), pa.decimal128(38, 10), "0.0000000000"),
        (datetime(1, 1, 1), pa.timestamp("us"), "0001-01-01 00%3A00%3A00"),
        (datetime(1, 1, 1, tzinfo=timezone.utc), pa.timestamp("us", "UTC"), "0001-01-01 00%3A00%3A00"),
        (datetime(2026, 1, 1, 0, 0, 0, 5), pa.timestamp("us"), "2026-01-01 00%3A00%3A00.000005"),
        (time(10, 0), pa.time64("us"), "10%3A00%3A00"),
    ],
)
def test_values_are_written_as_spark_writes_them(value, type_, expected):
    """Spark guesses the type of a column by these texts: ``nan`` would be a string."""
    batch = pa.RecordBatch.from_pydict({"c": pa.array([value], type_), "v": [1]})
    assert assigned(batch, partitionColumns="c") == [f"c={expected}"]


def test_files_leave_partition_columns_out_and_readers_find_them(tmp_path, sink_query):
    schema = pa.schema([("day", pa.string()), ("id", pa.int64())])
    query = sink_query(tmp_path, schema, partitionColumns="day")
    query.run([pa.RecordBatch.from_pydict({"day": ["x", "y", "x"], "id": [1, 2, 3]}, schema=schema)])
    query.finish()
    table = ds.dataset(str(tmp_path), partitioning="hive").to_table(columns=["id", "day"])
    assert sorted(table.to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "day": "x"},
        {"id": 2, "day": "y"},
        {"id": 3, "day": "x"},
    ]


def test_splitting_keeps_order_and_every_row():
    batch = pa.RecordBatch.from_pydict({"id": list(range(10))})
    buckets = pa.array(["b", "a", "c", "a", "b", "b", "a", "c", "a", "b"])
    pieces = {name: rows["id"].to_pylist() for name, rows in split_by_bucket(batch, buckets)}
    assert pieces == {"b": [0, 4, 5, 9], "a": [1, 3, 6, 8], "c": [2, 7]}


@pytest.mark.parametrize("bucket", ["../out", "/abs", ".hidden", "_tmp", "a//b", "a/../b"])
def test_buckets_that_leave_the_directory_or_hide_are_refused(bucket):
    batch = pa.RecordBatch.from_pydict({"id": [1]})
    with pytest.raises(BadDataError, match="relative path"):
        list(split_by_bucket(batch, bucket))


class ByParity(BucketAssigner):
    def __init__(self, _options):
        pass

    def bucket_ids(self, batch, now_ms):
        return pa.array(["even" if i % 2 == 0 else "odd" for i in batch.column(0).to_pylist()])


class EveryThirdRow(RollingPolicy):
    def __init__(self, _options):
        pass

    def should_roll_on_event(self, part: PartFileInfo) -> bool:
        return part.rows >= 3

    def should_roll_on_processing_time(self, part: PartFileInfo, now_ms: int) -> bool:
        return False


@pytest.fixture
def own_module(monkeypatch):
    """This file's classes under an importable name, as a user's module is."""
    import sys
    import types

    module = types.ModuleType("own_policies")
    for cls in (ByParity, EveryThirdRow):
        monkeypatch.setattr(cls, "__module__", "own_policies")
        setattr(module, cls.__name__, cls)
    monkeypatch.setitem(sys.modules, "own_policies", module)


def test_your_own_assigner_and_policy(tmp_path, sink_query, numbers, visible, own_module):
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    chosen = {"bucketAssigner": "own_policies:ByParity", "rollingPolicy": "own_policies:EveryThirdRow"}
    query = sink_query(tmp_path, schema, tasks=1, format="csv", **chosen)
    query.run([numbers(range(6))])
    assert {os.path.basename(os.path.dirname(path)) for path in visible(tmp_path)} == {"even", "odd"}
    query.run([numbers([10, 11])])
    assert len(visible(tmp_path)) == 2 and len(query.states) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bucketAssigner": "hourly"}, "neither one of dateTime, basePath, columns nor module:callable"),
        ({"bucketAssigner": "no_such_module:x"}, "no_such_module:x can't be imported: ModuleNotFoundError"),
        ({"bucketAssigner": "builtins:dict"}, "must return a BucketAssigner, it returned a dict"),
        ({"rollingPolicy": "size"}, "'rollingPolicy': 'size' is neither"),
        ({"bucketAssigner": "columns"}, "needs the option 'partitionColumns'"),
        (
            {"bucketAssigner": "basePath", "partitionColumns": "id"},
            "'partitionColumns' can't be used with bucketAssigner=dateTime or basePath",
        ),
        ({"bucketTimeZone": "Mars/Olympus"}, "not an IANA time zone"),
        ({"bucketColumn": "when"}, r"no column 'when' \(there are: id, note\)"),
        ({"bucketColumn": "note"}, "not a timestamp or a date"),
        ({"partitionColumns": "nope"}, "no column 'nope'"),
        ({"partitionColumns": "id,note"}, "names every column"),
        ({"partPrefix": "_part"}, "does not begin with"),
        ({"partSuffix": "/x"}, "hold no '/'"),
        ({"format": "csv", "compression": "snappy"}, "does not go with format csv"),
        ({"maxPartSize": "0"}, "least value"),
        ({"maxPartsize": "lots"}, "maxPartSize"),
    ],
)
def test_mistakes_are_named(given, message):
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    with pytest.raises(BadConfigurationError, match=message):
        create_sink(options(**given), schema).validate_schema(schema)


@pytest.mark.parametrize("type_", [pa.duration("us"), pa.binary(), pa.list_(pa.int64())])
def test_columns_that_make_no_directories(type_):
    schema = pa.schema([("id", pa.int64()), ("c", type_)])
    with pytest.raises(BadConfigurationError, match=r"'c' is .*: cast it to string"):
        create_sink(options(partitionColumns="c"), schema).validate_schema(schema)


def test_every_option_says_what_it_is():
    assert all(isinstance(option, Option) and len(option.doc) > 8 for option in SINK_OPTIONS)


def test_two_columns_of_one_name():
    schema = pa.schema([("a", pa.int64()), ("a", pa.int64())])
    with pytest.raises(BadConfigurationError, match="two columns are named 'a'"):
        create_sink(options(), schema).validate_schema(schema)
