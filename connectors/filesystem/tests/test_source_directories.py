"""Directories as tables: columns in the names of directories, typed and read as Spark does."""

from __future__ import annotations

import datetime
import json
import math
import random
import re
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, BadDataError
from penstock.serialization.values import TimeParser
from penstock.source import ColumnFilter
from penstock_filesystem.formats import escape_path_name
from penstock_filesystem.sink._buckets import ColumnsBucketAssigner
from penstock_filesystem.source._partitions import PartitionColumns

UTC = datetime.timezone.utc
DAY = datetime.date(2026, 1, 2)
TIME = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ZONED = pa.timestamp("us", "UTC")


def columns(*roots, base=None, zone="UTC"):
    return PartitionColumns(roots or ("/in",), base, TimeParser(zone))


def put(folder, *names, start=0):
    """One Parquet file of one row for each directory."""
    for number, name in enumerate(names, start):
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": pa.array([number], pa.int64())}), folder / name / f"{number}.parquet")


def read(harness, folder, schema=None, **options):
    source = harness.source(folder, **{"format": "parquet", **options})
    rows = harness.read(source, schema or source.infer_schema()).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=str)


# --- what Spark makes of a name ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "type_", "values"),
    [
        (["1"], pa.int32(), [1]),
        (["+1"], pa.int32(), [1]),
        (["01", "1"], pa.int32(), [1, 1]),
        (["2147483648"], pa.int64(), [2147483648]),
        (["9223372036854775808"], pa.decimal128(19, 0), [Decimal(9223372036854775808)]),
        (["1e5"], pa.decimal128(6, 0), [Decimal(100000)]),
        (["1" + "0" * 38], pa.float64(), [1e38]),
        (["1.5"], pa.float64(), [1.5]),
        (["1d"], pa.float64(), [1.0]),
        ([" 1"], pa.float64(), [1.0]),
        (["Infinity"], pa.float64(), [math.inf]),
        (["Inf"], pa.string(), ["Inf"]),
        (["0x10"], pa.string(), ["0x10"]),
        (["true"], pa.string(), ["true"]),
        (["2026-01-02"], pa.date32(), [DAY]),
        (["2026-1-2"], pa.string(), ["2026-1-2"]),
        (["2026-02-30"], pa.string(), ["2026-02-30"]),
        (["2026-01-02 03%3A04%3A05"], ZONED, [TIME]),
        (["2026-01-02 03:04:05.5"], ZONED, [TIME.replace(microsecond=500_000)]),
        (["2026-01-02 03%3A04%3A05.25"], pa.string(), ["2026-01-02 03:04:05.25"]),
        (["a%2Fb"], pa.string(), ["a/b"]),
        (["a%zz", "%", "a%2"], pa.string(), ["a%zz", "%", "a%2"]),
        (["%31"], pa.string(), ["1"]),
        (["a=b"], pa.string(), ["a=b"]),
        (["1", "2147483648"], pa.int64(), [1, 2147483648]),
        (["1", "1.5"], pa.float64(), [1.0, 1.5]),
        (["2147483648", "1.5"], pa.string(), ["2147483648", "1.5"]),
        (["9223372036854775808", "1.5"], pa.string(), ["9223372036854775808", "1.5"]),
        (["1e5", "9223372036854775808"], pa.decimal128(19, 0), [Decimal(100000), Decimal(9223372036854775808)]),
        (
            ["2026-01-02", "2026-01-02 03%3A04%3A05"],
            ZONED,
            [datetime.datetime(2026, 1, 2, tzinfo=UTC), TIME],
        ),
        (["1", "a"], pa.string(), ["1", "a"]),
        (["__HIVE_DEFAULT_PARTITION__", "1"], pa.int32(), [None, 1]),
        (["__HIVE_DEFAULT_PARTITION__"], pa.string(), [None]),
    ],
)
def test_types_are_those_that_spark_infers(names, type_, values):
    """What Spark 4.2 makes of them; ``test_trees_are_read_as_spark_reads_them`` asks it again."""
    paths = [f"/in/c={name}/f" for name in names]
    (field,) = columns().infer(paths)
    assert field == pa.field("c", type_)
    assert [columns().values(path, pa.schema([field]))["c"] for path in paths] == values


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/in/f", {}),
        ("/in/a=1/b=x/f", {"a": "1", "b": "x"}),
        ("/in/a=1/x/f", {"a": "1"}),
        ("/in/a=1/x/b=2/f", {"b": "2"}),
        ("/in/x/a=1/f", {"a": "1"}),
        ("/in/a%2Fb=1/f", {"a/b": "1"}),
        ("/in/_a=1/f", {"_a": "1"}),
        ("/in/a=1", {}),
        ("/other/a=1/f", {}),
    ],
)
def test_which_directories_count(path, found):
    assert columns().texts(path) == found


@pytest.mark.parametrize(
    ("roots", "base", "found"),
    [
        (["/in"], None, {"a": "1", "b": "2"}),
        (["/in/a=1"], None, {"b": "2"}),
        (["/in/a=1/b=2"], None, {}),
        (["/in/a=1/b=2/f"], None, {}),
        (["/in/a=1"], "/in", {"a": "1", "b": "2"}),
        (["/in/a=*"], None, {"b": "2"}),
        (["/in/a=*"], "/in", {"a": "1", "b": "2"}),
        (["/in", "/in/a=1"], None, {"b": "2"}),
        (["/i"], None, {}),
    ],
)
def test_columns_begin_below_the_path_that_is_read(roots, base, found):
    assert columns(*roots, base=base).texts("/in/a=1/b=2/f") == found


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        (["/in/a=/f"], "'a=' has no value"),
        (["/in/=1/f"], "'=1' has no name"),
        (["/in/a=1/A=2/f"], "two directories have the same name"),
        (["/in/a=1/f", "/in/b=1/f"], r"different columns: a \(/in/a=1/f\) and b \(/in/b=1/f\)"),
        (["/in/a=1/b=1/f", "/in/a=1/g"], "different columns: a, b"),
    ],
)
def test_directories_that_make_no_table_are_refused(paths, says):
    with pytest.raises(BadConfigurationError, match=says):
        columns().infer(paths)


def test_names_that_differ_in_case_are_one_column():
    """As in Spark; the name is that of the first directory, whichever file is older."""
    paths = ["/in/b=x/c=2/f", "/in/B=1/C=1/f", "/in/b=2/C=3/f"]
    for some in (paths, paths[::-1]):
        found = columns().infer(some)
        assert found == [pa.field("B", pa.string()), pa.field("C", pa.int32())]
        assert columns().values("/in/b=x/c=2/f", pa.schema(found)) == {"B": "x", "C": 2}


# --- reading ----------------------------------------------------------------------------------------------------------


def test_columns_come_behind_those_of_the_files(tmp_path, source_harness):
    put(tmp_path, "day=2026-01-02/h=3", "day=2026-01-02/h=4", "day=__HIVE_DEFAULT_PARTITION__/h=5")
    source = source_harness.source(tmp_path, format="parquet", includeMetadata="true")
    names = ["id", "day", "h", "_file_path", "_file_name", "_file_modification_time", "_file_size", "_file_offset"]
    assert source.infer_schema().names == names
    assert read(source_harness, tmp_path) == [(0, DAY, 3), (1, DAY, 4), (2, None, 5)]


def test_the_schema_decides_the_types(tmp_path, source_harness):
    put(tmp_path, "n=01", "n=2")
    for type_, expected in ((pa.string(), ["01", "2"]), (pa.int64(), [1, 2]), (pa.decimal128(5, 2), [1, 2])):
        assert read(source_harness, tmp_path, pa.schema([("n", type_)])) == [(one,) for one in expected]
    schema = pa.schema([("N", pa.int16()), ("id", pa.int64())])  # in any case, in any order, as in Spark
    assert read(source_harness, tmp_path, schema) == [(1, 0), (2, 1)]
    assert read(source_harness, tmp_path, pa.schema([("id", pa.int64())])) == [(0,), (1,)]


def test_a_name_that_does_not_fit_the_schema_is_an_error(tmp_path, source_harness):
    put(tmp_path, "n=1", "n=x")
    with pytest.raises(BadDataError, match="the directory of column 'n' holds 'x', which does not fit int"):
        read(source_harness, tmp_path, pa.schema([("n", pa.int32())]))
    put(tmp_path / "large", "n=300")
    with pytest.raises(BadDataError, match="'300' is out of range"):
        read(source_harness, tmp_path / "large", pa.schema([("n", pa.int8())]))


def test_a_directory_goes_before_a_column_of_the_file(tmp_path, source_harness):
    put(tmp_path, "id=7")
    source = source_harness.source(tmp_path, format="parquet")
    assert source.infer_schema() == pa.schema([("id", pa.int32())])
    assert read(source_harness, tmp_path) == [(7,)]


def test_a_file_outside_the_directories_has_not_got_their_columns(tmp_path, source_harness):
    """Spark leaves such a file out without a word."""
    put(tmp_path, ".", "a=1")
    with pytest.raises(BadDataError, match=r"0\.parquet: the column 'a' is neither in the file nor in the name"):
        read(source_harness, tmp_path)
    assert read(source_harness, tmp_path, missingColumns="null") == [(0, None), (1, 1)]


def test_whether_directories_are_looked_into(tmp_path, source_harness):
    put(tmp_path, ".", "a=1", "x", "a=2/x", "x/a=3")
    schema = pa.schema([("id", pa.int64()), ("a", pa.int32())])
    every = [(0, None), (1, 1), (2, None), (3, 2), (4, 3)]
    assert read(source_harness, tmp_path, schema, missingColumns="null") == every
    only = [(0, None), (1, 1)]
    assert read(source_harness, tmp_path, schema, missingColumns="null", recursiveFileLookup="false") == only
    no_columns = source_harness.source(tmp_path, format="parquet", recursiveFileLookup="true")
    assert no_columns.infer_schema() == pa.schema([("id", pa.int64())])
    assert len(source_harness.read(no_columns, no_columns.infer_schema())) == 5


def test_base_path(tmp_path, source_harness):
    put(tmp_path, "a=1/b=1", "a=2/b=2")
    assert read(source_harness, tmp_path / "a=1") == [(0, 1)]
    assert read(source_harness, tmp_path / "a=1", basePath=tmp_path) == [(0, 1, 1)]
    assert read(source_harness, tmp_path / "a=*", basePath=tmp_path) == [(0, 1, 1), (1, 2, 2)]
    with pytest.raises(BadConfigurationError, match=r"'basePath'.*is not in"):
        source_harness.source(tmp_path / "a=1", format="parquet", basePath=tmp_path / "other")
    with pytest.raises(BadConfigurationError, match="basePath"):
        source_harness.source(tmp_path, format="parquet", basePath=tmp_path, recursiveFileLookup="true")


@pytest.mark.parametrize("format_", ["csv", "json", "text", "avro", "binary"])
def test_every_format(tmp_path, source_harness, format_):
    for number in range(2):
        folder = tmp_path / f"n={number}" / "c=ü"
        folder.mkdir(parents=True)
        if format_ == "avro":
            schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}
            with open(folder / "f", "wb") as file:
                fastavro.writer(file, fastavro.parse_schema(schema), [{"a": f"v{number}"}])
        else:
            (folder / "f").write_text(json.dumps({"a": f"v{number}"}) if format_ == "json" else f"v{number}")
    source = source_harness.source(tmp_path, format=format_)
    assert source.fixed_schema() is None
    schema = source.infer_schema()
    assert schema.names[-2:] == ["n", "c"]
    source.validate_schema(schema)
    rows = source_harness.read(source, schema).to_pylist()
    assert sorted((row["n"], row["c"]) for row in rows) == [(0, "ü"), (1, "ü")]
    values = [row.get("a", row.get("value", row.get("_c0", row.get("content")))) for row in rows]
    assert sorted(one.decode() if isinstance(one, bytes) else one for one in values) == ["v0", "v1"]
    only = source_harness.read(source, pa.schema([("c", pa.string()), ("n", pa.int64())])).to_pylist()
    assert sorted(row["n"] for row in only) == [0, 1]


def test_text_without_such_directories_has_the_schema_it_always_has(tmp_path, source_harness):
    (tmp_path / "f").write_text("v")
    source = source_harness.source(tmp_path, format="text")
    assert source.fixed_schema() == pa.schema([("value", pa.string())])
    with pytest.raises(BadConfigurationError, match="format text has one column"):
        source.validate_schema(pa.schema([("value", pa.string()), ("n", pa.int32())]))
    empty = source_harness.source(tmp_path / "later", format="text")
    empty.validate_schema(pa.schema([("value", pa.string()), ("n", pa.int32())]))  # directories may come


def test_s3(s3_server, s3_path, source_harness):
    url, bucket, client = s3_path
    for key in ("out/a=1/f", "out/a=2/x/g", "out/h"):
        client.put_object(Bucket=bucket, Key=key, Body=b"v")
    schema = pa.schema([("value", pa.string()), ("a", pa.int32())])
    found, options = {}, {name.replace(".", "_"): text for name, text in s3_server.options().items()}
    for lookup in ("", "false"):
        more = {"recursiveFileLookup": lookup} if lookup else {}
        source = source_harness.source(url, format="json", **options, **more)
        found[lookup] = sorted(split.path.removeprefix(f"{bucket}/out/") for split in source_harness.splits(source))
    assert found == {"": ["a=1/f", "a=2/x/g", "h"], "false": ["a=1/f", "h"]}
    rows = source_harness.read(
        source_harness.source(f"{url}/a=1", format="text", basePath=url, **options), schema
    ).to_pylist()
    assert rows == [{"value": "v", "a": 1}]


# --- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([ColumnFilter("n", "=", 1)], ["1"]),
        ([ColumnFilter("n", ">", 1)], ["2", "10"]),
        ([ColumnFilter("n", "<=", 2)], ["1", "2"]),
        ([ColumnFilter("n", "<", 2), ColumnFilter("n", ">=", 1)], ["1"]),
        ([ColumnFilter("n", "in", (2, 10, 11))], ["2", "10"]),
        ([ColumnFilter("n", "is null")], ["__HIVE_DEFAULT_PARTITION__"]),
        ([ColumnFilter("n", "is not null")], ["1", "2", "10"]),
        ([ColumnFilter("n", "=", "1")], ["1"]),
        ([ColumnFilter("n", ">", "1")], ["2", "10"]),
        ([ColumnFilter("n", "=", Decimal("2.00"))], ["2"]),
        ([ColumnFilter("n", "=", 2.0)], ["1", "2", "10"]),  # of a float or of a double: it can't be told
        ([ColumnFilter("n", "=", DAY)], ["1", "2", "10"]),  # no date: the task says so
        ([ColumnFilter("id", "=", 1)], ["1", "2", "10", "__HIVE_DEFAULT_PARTITION__"]),
        ([ColumnFilter("n", "=", math.nan)], ["1", "2", "10"]),
        ([], ["1", "2", "10", "__HIVE_DEFAULT_PARTITION__"]),
    ],
)
def test_files_that_no_row_can_come_from_are_not_opened(tmp_path, source_harness, filters, left):
    names = ["1", "2", "10", "__HIVE_DEFAULT_PARTITION__"]
    put(tmp_path, *(f"n={name}" for name in names))
    source, applied = source_harness.source(tmp_path, format="parquet").push_filters(filters)
    assert applied == ()
    found = [split.path.split("/")[-2].partition("=")[2] for split in source_harness.splits(source)]
    assert sorted(found, key=names.index) == left


def test_a_column_that_holds_a_rounded_number_is_not_compared_with_the_name():
    for value in (0.1, Decimal("1.01")):
        assert columns().may_hold("/in/n=1.005/f", [ColumnFilter("n", "=", value)])
    assert not columns().may_hold("/in/n=1.5/f", [ColumnFilter("n", "=", Decimal("1.01"))])
    for name in ("x", "1" * 40, "NaN", "Infinity"):
        assert columns().may_hold(f"/in/n={name}/f", [ColumnFilter("n", "=", Decimal("1.01"))])


NUMBERS = st.one_of(st.integers(-99, 99).map(str), st.decimals(-99, 99, places=3).map(str), st.just("1e1"))
NAMES = {
    pa.int32(): NUMBERS,
    pa.int64(): NUMBERS,
    pa.float32(): NUMBERS,
    pa.float64(): NUMBERS,
    pa.decimal128(6, 2): NUMBERS,
    pa.string(): st.one_of(NUMBERS, st.sampled_from(["a", "A", "ü", "a%2Fb"])),
    pa.date32(): st.dates().map(str),
    ZONED: st.one_of(st.dates().map(str), st.datetimes().map(str)),
    pa.bool_(): st.sampled_from(["true", "false", "TRUE"]),
}
HOLDS = {
    "=": lambda one, other: one == other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
    "in": lambda one, others: one in others,
}


@settings(max_examples=500)
@given(data=st.data(), type_=st.sampled_from(list(NAMES)), operator=st.sampled_from(list(HOLDS)))
def test_no_filter_leaves_out_a_row_that_meets_it(data, type_, operator):
    schema = pa.schema([("n", type_)])

    def value():
        try:
            return columns().values(f"/in/n={data.draw(NAMES[type_])}/f", schema)["n"]
        except BadDataError:
            reject()

    name = data.draw(NAMES[type_])
    try:
        held = columns().values(f"/in/n={name}/f", schema)["n"]
    except BadDataError:
        reject()
    wanted = (value(), held) if operator == "in" else data.draw(st.sampled_from([held, value()]))
    if HOLDS[operator](held, wanted):
        assert columns().may_hold(f"/in/n={name}/f", [ColumnFilter("n", operator, wanted)])


def test_filters_on_times():
    path = "/in/t=2026-01-02 03%3A04%3A05/f"
    for operator, value, holds in (
        ("=", TIME, True),
        ("<", TIME, False),
        ("=", TIME.astimezone(datetime.timezone(datetime.timedelta(hours=2))), True),
        ("=", TIME.replace(tzinfo=None), True),
        (">", datetime.datetime(2026, 1, 1, tzinfo=UTC), True),
    ):
        assert columns().may_hold(path, [ColumnFilter("t", operator, value)]) is holds, (operator, value)
    assert columns(zone="Europe/Rome").may_hold(path, [ColumnFilter("t", "<", TIME)])
    assert columns().may_hold("/in/d=2026-01-02/f", [ColumnFilter("d", "<", DAY)]) is False


# --- Spark's reader and writer ----------------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_categories=["C"], exclude_characters="/"), min_size=1, max_size=6).filter(
    lambda word: word.strip(". ") == word
)
VALUES = st.one_of(
    st.integers(-5, 2**31),
    st.integers(-(2**63), 2**70),
    st.floats(allow_nan=False, width=32),
    st.dates(),
    st.datetimes(datetime.datetime(1900, 1, 1)).map(lambda time: time.replace(microsecond=0)),
    st.booleans(),
    st.none(),
    WORDS,
)


def directory(value):
    if value is None:
        return "__HIVE_DEFAULT_PARTITION__"
    return escape_path_name(str(value).lower() if isinstance(value, bool) else str(value))


@pytest.mark.spark
@settings(max_examples=12)
@given(tree=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=4))
@example(tree=[("1", "2026-01-02"), ("2", "2026-01-02 03:04:05")])
@example(tree=[(None, 1), (1.5, 2**40)])
def test_trees_are_read_as_spark_reads_them(spark, tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("tree")
    put(folder, *(f"first={directory(one)}/Second col={directory(other)}" for one, other in tree))
    theirs = spark.read.parquet(str(folder))
    ours = spark.read.format("penstock.filesystem").option("format", "parquet").load(str(folder))
    void = [field.name for field in theirs.schema if field.dataType.simpleString() == "void"]
    assert [(f.name, f.dataType.simpleString()) for f in ours.schema] == [
        (f.name, "string" if f.name in void else f.dataType.simpleString()) for f in theirs.schema
    ]
    assert sorted(map(repr, ours.collect())) == sorted(map(repr, theirs.collect()))
    schema = theirs.select(*(name for name in theirs.columns if name not in void)).schema
    again = spark.read.format("penstock.filesystem").option("format", "parquet").schema(schema).load(str(folder))
    assert sorted(map(repr, again.collect())) == sorted(map(repr, theirs.select(*schema.names).collect()))


@pytest.mark.spark
def test_what_is_written_by_columns_is_read_back(spark, tmp_path):
    """Ours and Spark's, by both readers; filters leave files out, and change nothing."""
    rows = spark.sql(
        "select * from values (1, 'a/b', date'2026-01-02', 1.50bd, true), (2, 'ü %', date'0001-01-01', -2.00bd, false),"
        "(3, null, null, null, null), (4, '__x', date'9999-12-31', 0.00bd, true) as t(id, s, d, m, b)"
    )
    names = ["s", "d", "m", "b"]
    rows.write.partitionBy(*names).parquet(str(tmp_path / "theirs"))
    writer = rows.write.format("penstock.filesystem").option("format", "parquet").mode("append")
    writer.option("partitionColumns", ",".join(names)).save(str(tmp_path / "ours"))
    expected = sorted(map(repr, rows.collect()))
    for folder in ("theirs", "ours"):
        reader = spark.read.format("penstock.filesystem").option("format", "parquet").schema(rows.schema)
        frame = reader.load(str(tmp_path / folder))
        assert sorted(map(repr, frame.collect())) == expected
        for condition in ("d > date'2000-01-01'", "s is null", "id > 1 and b", "m in (1.5, 0)", "d = date'2026-01-02'"):
            left = frame.where(condition).select("id").collect()
            assert sorted(left) == sorted(rows.where(condition).select("id").collect()), condition
    assert sorted(map(repr, spark.read.schema(rows.schema).parquet(str(tmp_path / "ours")).collect())) == expected


MICROSECOND = datetime.timedelta(microseconds=1)
CHARACTERS = "aZ09 _-.,%/=:'\"#?*[]{}^\\\t\x7f~@!$&()+;<>|"


def random_row(draw):
    number = float(f"{draw.randint(-9999, 9999)}e{draw.randint(-9, 15)}")
    return (
        1,
        "".join(draw.choices(CHARACTERS, k=draw.randint(0, 6))) or None,
        datetime.date(draw.randint(1, 9999), draw.randint(1, 12), draw.randint(1, 28)),
        datetime.datetime(draw.randint(2, 9998), 1, 1, 5, tzinfo=UTC) + draw.randint(0, 10**12) * MICROSECOND,
        draw.choice([number, number, number, float("nan"), float("inf"), float("-inf"), -0.0, None]),
        draw.choice([None, Decimal(draw.randint(-(10**9), 10**9)).scaleb(-draw.randint(0, 10))]),
        draw.choice([True, False, None]),
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    "count", [20, pytest.param(500, marks=pytest.mark.exhaustive("many rows; the 20 that are always the same stay"))]
)
def test_directories_are_called_as_spark_calls_them(spark, tmp_path, count):
    draw = random.Random(count)
    names = ["s", "d", "t", "x", "m", "b"]
    schema = "id long, s string, d date, t timestamp, x double, m decimal(30,10), b boolean"
    frame = spark.createDataFrame([random_row(draw) for _ in range(count)], schema).coalesce(1)
    out = tmp_path / "out"
    frame.write.partitionBy(*names).parquet(str(out))
    theirs = {str(path.parent.relative_to(out)) for path in out.rglob("*.parquet")}
    (batch,) = frame.toArrow().combine_chunks().to_batches()
    assert set(ColumnsBucketAssigner(tuple(names)).bucket_ids(batch, 0).to_pylist()) == theirs


def stream_of(spark, folder):
    put(folder, "a", "b")
    return (
        spark.readStream.format("penstock.filesystem").option("format", "parquet").schema("id long").load(str(folder))
    )


@pytest.mark.spark
@pytest.mark.parametrize("way", ["method", "argument", "list"])
def test_partition_by_of_a_stream_is_honoured(spark, tmp_path, way):
    """Spark itself does not tell a sink in Python of it."""
    stream = stream_of(spark, tmp_path / "in").selectExpr("id", "id % 2 as n", "'x' as m")
    writer = stream.writeStream.option("format", "parquet").option("checkpointLocation", str(tmp_path / "ck"))
    writer = writer.option("path", str(tmp_path / "out")).trigger(availableNow=True)
    if way == "argument":
        query = writer.start(format="penstock.filesystem", partitionBy=["n", "m"])
    else:
        columns = ("n", "m") if way == "method" else (["n", "m"],)
        query = writer.partitionBy(*columns).format("penstock.filesystem").start()
    query.awaitTermination()
    found = sorted(str(path.parent.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("n=*/*/*"))
    assert found == ["n=0/m=x", "n=1/m=x"]


@pytest.mark.spark
@pytest.mark.parametrize("way", ["method", "argument", "before the format"])
def test_partition_by_of_a_batch_is_honoured(spark, tmp_path, way):
    """Spark itself refuses it for a sink in Python."""
    rows, out = spark.sql("SELECT id, id % 2 AS n, 'x' AS m FROM range(4)"), str(tmp_path / "out")
    if way == "argument":
        rows.write.save(out, format="penstock.filesystem", mode="append", partitionBy=["n", "m"])
    elif way == "method":
        rows.write.format("penstock.filesystem").mode("append").partitionBy("n", "m").save(out)
    else:
        rows.write.partitionBy(["n", "m"]).mode("append").format("penstock.filesystem").save(out)
    assert sorted(str(path.parent.relative_to(out)) for path in Path(out).rglob("n=*/*/*")) == ["n=0/m=x", "n=1/m=x"]
    assert sorted(map(tuple, spark.read.parquet(out).select("id", "n", "m").collect())) == [
        (number, number % 2, "x") for number in range(4)
    ]


@pytest.mark.spark
@pytest.mark.parametrize("format_", ["parquet", "json", "orc"])
def test_spark_reads_a_batch_write_plainly(spark, tmp_path, format_):
    writer = spark.range(5).write.format("penstock.filesystem").mode("append").option("format", format_)
    writer.save(str(tmp_path / "out"))
    assert sorted(row.id for row in spark.read.format(format_).load(str(tmp_path / "out")).collect()) == [0, 1, 2, 3, 4]


@pytest.mark.spark
@pytest.mark.parametrize(
    "options", [{"bucketPattern": "yyyy"}, {"bucketAssigner": "dateTime", "bucketPattern": "yyyy"}]
)
def test_a_batch_write_into_directories_of_a_time(spark, tmp_path, options):
    writer = spark.range(5).write.format("penstock.filesystem").mode("append").options(**options)
    writer.save(str(tmp_path / "out"))
    (directory,) = (path for path in (tmp_path / "out").iterdir() if not path.name.startswith("."))
    assert re.fullmatch(r"\d{4}", directory.name)


@pytest.mark.spark
def test_partition_by_is_refused_by_connectors_that_have_no_directories(spark, tmp_path):
    stream = stream_of(spark, tmp_path / "in").selectExpr("cast(id as string) as value")
    writer = stream.writeStream.format("penstock.kafka").option("kafka.bootstrap.servers", "127.0.0.1:1")
    writer = writer.option("topic", "t").option("checkpointLocation", str(tmp_path / "ck")).partitionBy("value")
    with pytest.raises(Exception, match=r"(?i)has no option 'partitionBy'"):
        writer.start().awaitTermination()


@pytest.mark.spark
def test_partition_by_of_other_formats_is_sparks(spark, tmp_path):
    writer = stream_of(spark, tmp_path / "in").selectExpr("id", "id as n").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path / "ck")).partitionBy("n").trigger(availableNow=True)
    writer.start(str(tmp_path / "out")).awaitTermination()
    assert sorted(path.name for path in (tmp_path / "out").glob("n=*")) == ["n=0", "n=1"]


@pytest.mark.spark
def test_a_stream_takes_columns_that_its_schema_names(spark, tmp_path):
    put(tmp_path / "in", "n=1", "n=2")
    reader = spark.readStream.format("penstock.filesystem").option("format", "parquet").schema("id long, n int")
    stream = reader.load(str(tmp_path / "in"))

    def run():
        writer = stream.writeStream.format("penstock.filesystem").option("format", "parquet")
        writer = writer.option("path", str(tmp_path / "out")).option("partitionColumns", "n")
        query = writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start()
        query.awaitTermination()

    run()
    put(tmp_path / "in", "n=2", "n=3", start=2)
    run()
    found = spark.read.format("penstock.filesystem").option("format", "parquet").load(str(tmp_path / "out"))
    assert sorted(map(tuple, found.collect())) == [(0, 1), (1, 2), (2, 2), (3, 3)]


@pytest.mark.spark
def test_settings_of_the_session_do_not_decide_types(spark, tmp_path):
    """Spark gives them to none of its sources in Python."""
    put(tmp_path, "n=01")
    setting = "spark.sql.sources.partitionColumnTypeInference.enabled"
    spark.conf.set(setting, "false")
    try:
        assert spark.read.parquet(str(tmp_path)).schema["n"].dataType.simpleString() == "string"
        ours = spark.read.format("penstock.filesystem").option("format", "parquet").load(str(tmp_path))
        assert ours.schema["n"].dataType.simpleString() == "int"
    finally:
        spark.conf.unset(setting)
