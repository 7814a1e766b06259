"""What Spark's own readers make of tricky rows, beside ours.

Not in the data: what differs on purpose. Bytes that are not of the encoding are a bad row here, doubled quotes are one
quote whatever ``escape`` is, and JSON strings in single quotes are not JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.serialization.values import TimeParser

CSV = b"""1,"",1.5,true,2020-01-01,2020-01-01 00:00:00
2,,1e3,TRUE,2020-1-1,2020-01-01T00:00:00.123456Z
3,"a\\"b",NaN,0,2020-01-01,2020-01-01
4,a"b,Infinity,x,x,2020-01-01 00:00:00+02:00
300000000000000000000,"a,b",1,false,0001-01-01,2020-01-01T00:00
-1.0,"a\\\\",1,false,20200101,x

 \t
6,"a\\nb",1,,,2020-01-01 00:00:00.1234567
7,a\\,1,false,2020-01-01,2020-01-01
8,NA
9,x,1,true,2020-01-01,2020-01-01,extra
10,"open,1
12,a\rb,c
"""
JSON = b"""{"a":1,"s":"x","f":1.5,"t":"2020-01-01T00:00:00Z","n":{"x":1},"l":[1,2],"d":"2020-01-01","b":true,"m":1.25}
{"a":"1","s":1,"f":1,"t":"2020-01-01 00:00:00","n":{"x":"q"}}
{"a":1.0,"s":{"k":1},"f":"NaN","t":1577836800,"n":null,"l":null}
{"a":1.5,"f":"x","b":"true"}
{"a":3,"unknown":1}
bad
{"a":4

[{"a":5},{"a":6}]
{"a":7} trailing
{"A":8}
{"a":null,"s":true}
"text"
12
{}
{"a":12,"m":1.255,"d":"x"}
"""
CSV_SCHEMA = "a long, s string, f double, b boolean, d date, t timestamp, _corrupt_record string"
JSON_SCHEMA = (
    "a long, s string, f double, t timestamp, n struct<x:long>, l array<long>, d date, b boolean, m decimal(6,2)"
)
OTHER_CODECS = pytest.mark.exhaustive("codecs of every kind; those that only Hadoop writes are the witnesses")


def plain(rows):
    """Comparable: NaN equals itself, Row and dict look the same, whatever the local zone."""

    def value(v):
        if hasattr(v, "asDict"):
            return v.asDict()
        if hasattr(v, "astimezone"):
            return v.timestamp()
        return repr(v)

    return [tuple(str(value(v)) for v in row) for row in rows]


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
@pytest.mark.parametrize(("format_", "data", "ddl"), [("csv", CSV, CSV_SCHEMA), ("json", JSON, JSON_SCHEMA)])
def test_the_same_rows_as_spark(spark, tmp_path, source_harness, format_, data, ddl, mode):
    from pyspark.sql.pandas.types import to_arrow_schema

    path = tmp_path / f"in.{format_}"
    path.write_bytes(data)
    frame = spark.read.schema(ddl).option("mode", mode).format(format_).load(str(path))
    theirs = plain(frame.collect())
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    ours = source_harness.rows(path, pa.schema(schema), format=format_, mode=mode)
    for mine, spark_row in zip(plain(ours), theirs, strict=False):
        assert mine == spark_row
    assert len(ours) == len(theirs)


DATES = [
    "2020-01-02",
    "2020-1-2",
    "+2020-01-02",
    "2020-01",
    "2020",
    "2020-02-30",
    "2020-13-01",
    "20-01-02",
    "2020/01/02",
]
TIMES = ["", "T", "T3", " 03:04", "T03:04:05", " 3:4:5", "T24:00:00", "T23:59:60", "t03:04:05"]
FRACTIONS = ["", ".", ".1", ".123456", ".1234567891", ".x"]
ZONES = [
    "",
    "Z",
    " Z ",
    "z",
    "UTC",
    "utc",
    "GMT",
    "UT",
    "GMT+1",
    "UTC-01:00",
    "UTC+1:30",
    "UT+1",
    "UTCZ",
    "Europe/Berlin",
]
ZONES += [
    " Asia/Kolkata",
    "[Europe/Berlin]",
    "europe/berlin",
    "PST",
    "IST",
    "EST",
    "CST6CDT",
    "Etc/GMT-3",
    "Nowhere/X",
    "X",
]
ZONES += ["+1", "+01", "-01", "+0130", "+130", "+1:30", "+01:3", "+1:3", "+01:30:15", "+013015", "+1:30:15", "+01:30:5"]
ZONES += [
    "+05:41:16",
    "-05:41:16",
    "+18:00",
    "-18:00",
    "+24:00",
    "+01:60",
    "+01:59:60",
    " +01:00",
    "+",
    "+abc",
    "right/UTC",
]
#: Beyond those that Python knows, and beyond those that fit.
YEARS = [
    "0001-01-01",
    "-0001-01-02",
    "0000-01-01",
    "-0400-02-29",
    "9999-12-31",
    "10000-01-01",
    "12020-2-29",
    "294246-12-31",
]
YEARS += [
    "294247-01-11",
    "-290308-12-31",
    "999999-01-01",
    "-1000-06-15",
    "1582-10-10",
    "1890-01-01",
    "1900-02-29",
    "202020-01-01",
    "12345",
    "1234567",
]
#: Times that a clock in Rome skipped, or showed twice.
CHANGES = ["2020-03-29T02:00:00", "2020-03-29T02:30:00", "2020-03-29T02:59:59", "2020-03-29T03:00:00"]
CHANGES += [
    "2020-10-25T02:00:00",
    "2020-10-25T02:30:00",
    "2020-10-25T03:00:00",
    "1866-12-12T00:00:00",
    "1893-10-31T23:50:00",
]
CHANGES += ["2050-07-01T00:00:00", "9999-07-01T00:00:00", "1800-01-01T00:00:00", "1944-04-03T02:30:00"]
#: Read here, and bad rows for Spark.
LENIENT = ["2020-01-02T03:04Z", "2020-01-02T03+01:00", "2020-01-02T03:04:05+18:01", "2020-01-02T03:04:05-23:59"]
#: Bad rows here, and read by Spark.
STRICT = ["03:04:05", "T3:4"]


def times_in_every_form():
    """As Spark reads them, whatever the forms; and with nothing or a zone behind each."""
    for day, time in itertools.product(DATES, TIMES):
        yield day + time
    for time, fraction, zone in itertools.product(TIMES[4:], FRACTIONS, ZONES):
        yield DATES[0] + time + fraction + zone
    for day, zone in itertools.product(YEARS, ZONES[:20]):
        yield from (day, f"{day}T03:04:05{zone}")
    yield from (f"{day}{fraction}" for day in CHANGES for fraction in FRACTIONS)
    yield from (f" {DATES[0]}{TIMES[4]} ", f"\t{DATES[0]}", "epoch", "now", "x", "1.5", *LENIENT, *STRICT)


@pytest.mark.spark
@pytest.mark.parametrize("format_", ["csv", "json"])
def test_times_in_every_form(spark, tmp_path, source_harness, format_):
    texts = list(dict.fromkeys(times_in_every_form()))
    rows = spark.createDataFrame([(n, one, one) for n, one in enumerate(texts)], "n int, t string, d string").coalesce(
        1
    )
    rows.write.option("ignoreLeadingWhiteSpace", False).option("ignoreTrailingWhiteSpace", False).format(format_).save(
        str(tmp_path / "in")
    )
    reader = spark.read.schema("n int, t timestamp, d date").option("timeZone", "Europe/Rome").format(format_)
    theirs = reader.load(str(tmp_path / "in")).selectExpr("n", "unix_micros(t)", "unix_date(d)").collect()
    schema = pa.schema([("n", pa.int32()), ("t", pa.timestamp("us", "UTC")), ("d", pa.date32())])
    options = {"format": format_, "timeZone": "Europe/Rome"}
    ours = source_harness.read(source_harness.source(tmp_path / "in", **options), schema)
    found = zip(ours.column("n"), ours.column("t").cast(pa.int64()), ours.column("d").cast(pa.int32()), strict=True)
    parser = TimeParser("Europe/Rome")
    for (n, at, day), (_, their_at, their_day) in zip(
        sorted(found, key=lambda row: row[0].as_py()), theirs, strict=True
    ):
        text = texts[n.as_py()]
        try:
            as_column = parser.column(pa.array([text]), schema.field("t").type).cast(pa.int64())[0]
            assert as_column == at, f"{text!r} as a column, and as a value"
        except pa.ArrowInvalid:
            pass
        if text in LENIENT:
            assert at.is_valid and their_at is None, text
        elif text in STRICT:
            assert not at.is_valid and not day.is_valid and their_at is not None, text
        else:
            assert (text, at.as_py(), day.as_py()) == (text, their_at, their_day)


NAMES = [
    "a",
    "A",
    "a b",
    " lead",
    "trail ",
    "a\nb",
    "a\tb",
    "\x01c",
    "a%20b",
    "a%2Fb",
    "é",
    "e\u0301",
    "日本",
    "a+b",
    "a#b",
]
NAMES += [
    "a?b",
    "a*b",
    "[x]",
    "{y}",
    "~x",
    "_x",
    "_x=1",
    ".x",
    "x.",
    "a\\b",
    "x.crc",
    "_SUCCESS",
    "a.tmp",
    "a&b",
    "a;b",
]
NAMES += ["x._COPYING_", "_metadata", "a,b", "a'b", 'a"b', "a|b", "a$b", "a@b", "-x", "x.gz.txt"]
GLOBS = [
    "a*",
    "*b",
    "a?b",
    "[ax]*",
    "{a,A}",
    r"a\*b",
    r"\[x\]",
    "*[!a-z]",
    "[^a]*",
    "日*",
    "**",
    "a[*]b",
    "_*",
    "a%*",
    "{a,_x=1}*",
]


@pytest.mark.spark
def test_names_and_globs_as_spark_takes_them(spark, tmp_path):
    """Of files and directories, with each file's own name in it."""
    penstock.register(spark)
    for name in NAMES:
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / name).write_text(json.dumps(name))
        (tmp_path / "dirs" / name).mkdir(parents=True)
        (tmp_path / "dirs" / name / "f").write_text(json.dumps(name))

    def both(path, **options):
        found = []
        for reader in (spark.read.format("text"), spark.read.format("penstock.filesystem").option("format", "text")):
            rows = reader.schema("value string").options(**options).load(f"{tmp_path}/{path}").collect()
            found.append(sorted(json.loads(value) for (value,) in rows))
        return found

    theirs, ours = both("files", recursiveFileLookup="true")
    assert ours == theirs and len(ours) == len(NAMES) - 5
    theirs, ours = both("dirs", recursiveFileLookup="true")
    assert sorted([*ours, "_metadata"]) == theirs
    for glob in GLOBS:
        theirs, ours = both(f"files/{glob}")
        assert ours == theirs != [], glob
        theirs, ours = both("files", pathGlobFilter=glob)
        assert ours == theirs != [], glob
    for hidden in ("_x", ".x", "x._COPYING_", "_SUCCESS"):
        assert both(f"files/{hidden}") == [[], [hidden]]


@pytest.mark.spark
def test_times_of_files_as_spark_takes_them(spark, tmp_path, source_harness):
    """In each form of a timestamp, with files of just that time; and timestamps in the names of directories."""
    moment_ns = 1_700_000_000_123_000_000
    (tmp_path / "files").mkdir()
    for nanos in (-1_000_000, -1, 0, 1, 999_999, 1_000_000, 3_600_000_000_000, -3_600_000_000_000):
        path = tmp_path / "files" / f"f{nanos}"
        path.write_text("1")
        os.utime(path, ns=(0, moment_ns + nanos))
    sizes = set()
    for text in ("2023-11-14T22:13:20.123", "2023-11-14 22:13:20.122999999", "2023-11-14T23:13:20.123+01:00", "2023"):
        zones = ("UTC",) if "+" in text else ("UTC", "America/New_York")
        for zone, name in itertools.product(zones, ("modifiedAfter", "modifiedBefore")):
            options = {"timeZone": zone, name: text}
            theirs = spark.read.options(**options).text(f"{tmp_path}/files").inputFiles()
            ours = source_harness.splits(source_harness.source(tmp_path / "files", format="text", **options))
            assert sorted(map(os.path.basename, theirs)) == sorted(os.path.basename(split.path) for split in ours), (
                options
            )
            sizes.add(len(ours))
    assert len(sizes) > 3
    # Spark takes the clock of a time with a zone of its own, in UTC, for one of timeZone.
    options = {"timeZone": "America/New_York", "modifiedAfter": "2023-11-14T23:13:20.123+01:00"}
    assert not spark.read.options(**options).text(f"{tmp_path}/files").inputFiles()
    assert len(source_harness.splits(source_harness.source(tmp_path / "files", format="text", **options))) == 2
    penstock.register(spark)
    spark.range(1).write.parquet(f"{tmp_path}/days/t=2026-01-01 01%3A00%3A00/f")
    theirs, ours = (
        spark.read.format(format_)
        .options(format="parquet", timeZone="Europe/Berlin")
        .load(f"{tmp_path}/days")
        .collect()
        for format_ in ("parquet", "penstock.filesystem")
    )
    assert ours == theirs and ours[0].t.timestamp() == datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp()


INSTANTS = ["9999-12-31 23:59:59.999", "0001-01-01 00:00:00", "1500-06-01 12:00:00", "1677-09-21 00:12:43"]
INSTANTS += ["2262-04-11 23:47:17", "1970-01-01 00:00:00", "2024-02-29 01:02:03.123456"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("format_", "kind"),
    [("parquet", "INT96"), ("parquet", "TIMESTAMP_MICROS"), ("parquet", "TIMESTAMP_MILLIS"), ("orc", "")],
)
def test_times_that_spark_wrote(spark, tmp_path, source_harness, format_, kind):
    rows = ", ".join(
        f"(timestamp'{one}', timestamp_ntz'{one}', date'{one[:10]}', array(timestamp'{one}', null), "
        f"map(1, named_struct('t', timestamp'{one}', 'n', timestamp_ntz'{one}')))"
        for one in INSTANTS
    )
    if kind:
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
    try:
        frame = spark.sql(f"select * from values {rows}, (null, null, null, null, null) as v(t, n, d, l, m)")
        frame.coalesce(1).write.format(format_).save(str(tmp_path / "in"))
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    micros = "unix_micros(t), unix_micros(cast(n as timestamp)), unix_date(d), unix_micros(l[0]), unix_micros(m[1].t)"
    written = spark.read.format(format_).load(str(tmp_path / "in"))
    theirs = [tuple(row) for row in written.selectExpr(*micros.split(", ")).collect()]
    source = source_harness.source(tmp_path / "in", format=format_)
    schema = source.infer_schema()
    zones = [getattr(type_, "tz", None) for type_ in (*schema.types[:3], schema.field("l").type.value_type)]
    assert zones == ["UTC", None, None, "UTC"]
    epoch = datetime(1970, 1, 1)

    def micros_of(value):
        return None if value is None else (value.replace(tzinfo=None) - epoch) // timedelta(microseconds=1)

    def plain_row(row):
        day = None if row["d"] is None else (row["d"] - epoch.date()).days
        nested = (row["l"] or [None])[0], dict(row["m"] or {1: {"t": None}})[1]["t"]
        return micros_of(row["t"]), micros_of(row["n"]), day, *map(micros_of, nested)

    assert list(map(plain_row, source_harness.read(source, schema).to_pylist())) == theirs


VALUES = {
    "b": "cast(1 as byte)",
    "sh": "cast(-2 as short)",
    "i": "2147483647",
    "l": "-9223372036854775807L",
    "f": "cast(1.5 as float)",
    "d": "double('NaN')",
    "z": "true",
    "s": "'é'",
    "bin": "X'FF00'",
    "dec": "cast(-12345.67 as decimal(12,2))",
    "dec38": "cast(99999999999999999999999999999999.5 as decimal(38,2))",
    "da": "date'9999-12-31'",
    "da2": "date'0001-01-01'",
    "t": "timestamp'2024-01-01 00:00:00.123456'",
    "t2": "timestamp'9999-12-31 23:59:59.999999'",
    "t3": "timestamp'0001-01-01 00:00:00'",
    "n": "timestamp_ntz'2024-01-01 00:00:00.5'",
    "a": "array(1, null)",
    "at": "array(named_struct('x', timestamp'2024-01-01 00:00:00', 'y', cast(null as date)))",
    "m": "map('k', 1, 'j', null)",
    "ms": "map('k', named_struct('x', 1, 'l', array('a')))",
    "st": "named_struct('p', 1, 'q', named_struct('r', 'x'))",
}


#: Of these, files hold numbers: Spark takes the type from notes of its own.
INTERVALS = {"iv": ("interval '1' day", 86_400_000_000), "im": ("interval '14' month", 14)}
AVRO_CODECS = ["snappy", "zstandard", "deflate", "bzip2", "xz", "uncompressed"]


ORC_CODECS = ("zstd", "snappy", "zlib", "lz4", "none")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("format_", "codec"),
    [("parquet", "snappy"), *(("avro", one) for one in AVRO_CODECS), *(("orc", one) for one in ORC_CODECS)],
)
def test_every_type_that_spark_writes(spark, tmp_path, format_, codec):
    penstock.register(spark)
    values = {**VALUES, **{name: value for name, (value, _) in INTERVALS.items()}}
    columns = ", ".join(f"{value} as {name}" for name, value in values.items())
    nulls = ", ".join("null" for _ in values)
    frame = spark.sql(f"select 1 as id, {columns} union all select 2, {nulls}").coalesce(1)
    frame.write.format(format_).option("compression", codec).save(str(tmp_path / "in"))
    readers = spark.read.format(format_), spark.read.format("penstock.filesystem").option("format", format_)
    theirs, ours = (one.load(str(tmp_path / "in")) for one in readers)
    assert ours.drop(*INTERVALS).schema.simpleString() == theirs.drop(*INTERVALS).schema.simpleString()
    texts = ["id", *(f"to_json(struct({name}))" for name in VALUES), "unix_micros(t2)", "unix_micros(t3)"]
    assert ours.selectExpr(*texts).collect() == theirs.selectExpr(*texts).collect()
    numbers = [tuple(number for _, number in INTERVALS.values()), (None,) * len(INTERVALS)]
    assert [tuple(row) for row in ours.select(*INTERVALS).collect()] == numbers


@pytest.mark.spark
def test_parquet_texts_that_are_not_utf_8_stay_as_they_are(spark, tmp_path):
    penstock.register(spark)
    bad = pa.array([b"a", b"\xff\xfe", b"caf\xe9", None])
    texts = pa.StringArray.from_buffers(len(bad), *bad.buffers()[1:], bad.buffers()[0], bad.null_count)
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"s": texts}), tmp_path / "in" / "a.parquet")
    readers = spark.read.format("parquet"), spark.read.format("penstock.filesystem").option("format", "parquet")
    theirs, ours = (
        [row[0] for row in one.load(str(tmp_path / "in")).selectExpr("hex(s)").collect()] for one in readers
    )
    assert ours == theirs == ["61", "FFFE", "636166E9", None]


@pytest.mark.spark
def test_every_file_is_read_once_over_restarts_also_one_that_comes_late(spark, tmp_path):
    """More files than offsets hold; the memory beside the checkpoint does not disturb the sink's own files there."""
    penstock.register(spark)
    landing, out, checkpoint = tmp_path / "in", tmp_path / "out", str(tmp_path / "checkpoint")
    landing.mkdir()

    def put(name, seconds):
        (landing / name).write_text(f"{name}\n")
        os.utime(landing / name, (seconds, seconds))

    def run():
        files = spark.readStream.format("penstock.filesystem").option("format", "text")
        files = files.option("maxFilesPerTrigger", 800).option("checkpointLocation", checkpoint)
        rows = files.load(str(landing))
        written = rows.writeStream.format("penstock.filesystem").option("format", "text")
        written = written.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        written.start(str(out)).awaitTermination()
        return sorted(line for path in out.glob("**/*.txt") for line in path.read_text().split())

    expected = [f"f{number:04}" for number in range(1500)]
    for number, name in enumerate(expected):
        put(name, 10_000 + number)
    assert run() == expected
    for name in expected[:700]:
        (landing / name).unlink()
    put("a-late-one", 9)
    assert run() == ["a-late-one", *expected]
    assert run() == ["a-late-one", *expected]
    stored = list((tmp_path / "checkpoint" / "penstock" / "sources").glob("*/*.run"))
    assert stored and all(path.stat().st_size > 8_000 for path in stored)
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "checkpoint" / "offsets").iterdir()}
    assert sizes["1"] > 12_000 > 4_000 > sizes["2"], "the offset names what it does not hold"


@pytest.mark.spark
@pytest.mark.parametrize(
    "codec", ["deflate", "lz4", "snappy", *(pytest.param(one, marks=OTHER_CODECS) for one in ("gzip", "bzip2"))]
)
def test_what_spark_compressed(spark, tmp_path, source_harness, codec):
    # Rows beyond the 256 KiB of a chunk, such as no compression makes shorter, such as it makes much shorter, and files
    # without a row. Spark's writer compresses to zstd only where Hadoop's own library is installed.
    long = random.Random(1).randbytes(300_000).hex()
    rows = [(n, f"{long[n:]}{n}" if n % 100 == 7 else f"{n}" * (n % 50)) for n in range(200)]
    frame = spark.createDataFrame(rows, "id long, s string")
    for format_ in ("csv", "json"):
        path = tmp_path / format_
        frame.repartition(3).write.format(format_).option("compression", codec).save(str(path))
        frame.limit(0).write.format(format_).option("compression", codec).mode("append").save(str(path))
        found = source_harness.rows(path, [("id", pa.int64()), ("s", pa.string())], format=format_, badRecords="fail")
        assert sorted(found) == [(n, text or None if format_ == "csv" else text) for n, text in rows]
    texts = tmp_path / "text"
    frame.select("s").write.option("compression", codec).text(str(texts))
    found = source_harness.rows(texts, [("value", pa.string())], format="text", wholetext=True)
    assert sorted("".join(one for (one,) in found).split("\n")) == sorted(["", *(text for _, text in rows)])


@pytest.mark.spark
def test_the_trigger_once_reads_and_publishes_everything_in_one_batch(spark, tmp_path):
    penstock.register(spark)
    (tmp_path / "in").mkdir()
    for number in range(5):
        (tmp_path / "in" / f"{number}").write_text(f"{number}\n")
    files = spark.readStream.format("penstock.filesystem").option("format", "text").option("maxFilesPerTrigger", 1)
    written = files.load(str(tmp_path / "in")).writeStream.format("penstock.filesystem").option("format", "text")
    query = written.option("checkpointLocation", str(tmp_path / "ck")).trigger(once=True).start(str(tmp_path / "out"))
    query.awaitTermination()
    assert [progress["numInputRows"] for progress in query.recentProgress] == [5]
    assert sorted("".join(path.read_text() for path in tmp_path.glob("out/**/*.txt")).split()) == list("01234")


@pytest.mark.spark
def test_variants_are_structs(spark, tmp_path, source_harness):
    spark.sql("""select parse_json('{"a":1}') v""").coalesce(1).write.parquet(str(tmp_path / "out"))
    (field,) = source_harness.source(tmp_path / "out", format="parquet").infer_schema()
    assert pa.types.is_struct(field.type) and {"metadata", "value"} <= {one.name for one in field.type}
