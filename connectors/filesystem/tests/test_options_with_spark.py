"""Options that carry Spark's name have the effect that they have there; Spark's reader and writer are the oracle."""

from __future__ import annotations

import json
from datetime import datetime

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError
from penstock_filesystem.formats import WriteOptions, create_writer
from penstock_filesystem.options import SINK_OPTIONS

DATA = """a,b,c,d,e
1,31.12.2025,31.12.2025 10:00,2025-12-31, true
2,01.01.2026,01.01.2026 00:30,2026-01-01,false
3,,,,
"""


@pytest.mark.spark
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dateFormat": "dd.MM.yyyy"},
        {"dateFormat": "dd.MM.yyyy", "timestampFormat": "dd.MM.yyyy HH:mm"},
        {"timestampFormat": "dd.MM.yyyy HH:mm", "ignoreLeadingWhiteSpace": "true"},
        {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"},
    ],
)
def test_inferred_types_and_values(spark, tmp_path, source_harness, options):
    """A pattern decides what is a date, and a blank what is a boolean, in the schema as well as in the values."""
    path = tmp_path / "in.csv"
    path.write_text(DATA)
    given = {"header": "true", "inferSchema": "true", **options}
    frame = spark.read.options(**given).csv(str(path))
    source = source_harness.source(path, format="csv", **given)
    schema = source.infer_schema()
    assert [str(field.type) for field in schema] == [_ARROW[field.dataType.typeName()] for field in frame.schema]
    ours = source_harness.rows(path, schema, format="csv", **given)
    theirs = [tuple(row) for row in frame.collect()]
    assert [[value is None for value in row] for row in ours] == [[value is None for value in row] for row in theirs]
    assert [row[0] for row in ours] == [1, 2, 3]


_ARROW = {
    "integer": "int64",
    "date": "date32[day]",
    "timestamp": "timestamp[us, tz=UTC]",
    "string": "string",
    "boolean": "bool",
}


@pytest.mark.spark
@pytest.mark.parametrize("quote_all", ["true", "false"])
@pytest.mark.parametrize(
    "options", [{}, {"emptyValue": "EMPTY"}, {"nullValue": "NULL"}, {"emptyValue": "", "nullValue": "N"}]
)
def test_what_stands_for_null_and_for_empty(spark, tmp_path, options, quote_all):
    rows = [("a", None, 1), ("", None, None), ('q"', "x,y", 2)]
    given = {"quoteAll": quote_all, **options}
    frame = spark.createDataFrame(rows, "s string, t string, i int").coalesce(1)
    frame.write.options(**given).csv(str(tmp_path / "spark"))
    (theirs,) = (tmp_path / "spark").glob("part-*")
    schema = pa.schema([("s", pa.string()), ("t", pa.string()), ("i", pa.int32())])
    values = SINK_OPTIONS.parse({"path": "x", "format": "csv", **given}, owner="sink")
    writer = create_writer(schema, WriteOptions.from_values(values))
    batch = pa.RecordBatch.from_pylist([dict(zip("sti", row, strict=True)) for row in rows], schema)
    expected = theirs.read_text()
    if quote_all == "true" and "nullValue" not in options:
        # The difference that stays: in quotes, null would come back as an empty string.
        expected = expected.replace('"a","",', '"a",,').replace(',"",""\n', ",,\n")
    assert "".join(f"{line}\n" for line in writer.lines(batch).to_pylist()) == expected


PATTERN, ISO = "dd.MM.yyyy HH:mm:ss.SSSSSS", "yyyy-MM-dd HH:mm"
LOCAL_TIMES = ["31.12.2025 10:00:59.125000", "2025-12-31 10:00", "2025-12-31T10:00:59.125", "2025-12-31", "31.12.2025"]
LOCAL_TIMES += ["2025-12-31 10:00:00Z", "2025-12-31 10:00:00+02:00", "31.12.2025 10:00:59.125000+02:00", "x"]


@pytest.mark.spark
@pytest.mark.parametrize("format_", ["csv", "json"])
def test_patterns_of_times_without_a_zone(spark, tmp_path, source_harness, format_):
    """Reading and writing. They have an option of their own: ``timestampFormat`` is for those with a zone."""
    (tmp_path / "in").mkdir()
    lines = [f"{text},{text}" if format_ == "csv" else json.dumps({"p": text, "q": text}) for text in LOCAL_TIMES]
    (tmp_path / "in" / "a").write_text("".join(f"{line}\n" for line in lines))
    schema = pa.schema([("p", pa.timestamp("us")), ("q", pa.string())])
    rows = [(datetime(2025, 12, 31, 10, 0, 59, 125_000), "a"), (datetime(1970, 1, 1), None)]
    ours = pa.RecordBatch.from_pylist([dict(zip("pq", row, strict=True)) for row in rows], schema)
    names = ("timestampFormat", "timestampNTZFormat")
    chosen = [(None, None), (PATTERN, None), (None, PATTERN), (PATTERN, ISO), (None, f"{PATTERN}XXX")]
    for number, patterns in enumerate(chosen):
        options = {name: pattern for name, pattern in zip(names, patterns, strict=True) if pattern}
        reader = spark.read.schema("p timestamp_ntz, q string").options(**options).format(format_)
        theirs = sorted(map(tuple, reader.load(f"{tmp_path}/in").collect()), key=repr)
        assert sorted(source_harness.rows(tmp_path / "in", schema, format=format_, **options), key=repr) == theirs
        if patterns[1] not in (PATTERN, ISO):
            continue  # what is written without a pattern differs, and a zone can't be written
        frame = spark.createDataFrame(rows, "p timestamp_ntz, q string").coalesce(1)
        frame.write.options(**options).format(format_).save(f"{tmp_path}/{number}")
        (written,) = (tmp_path / str(number)).glob("part-*")
        values = SINK_OPTIONS.parse({"path": "x", "format": format_, **options}, owner="sink")
        lines = create_writer(schema, WriteOptions.from_values(values)).lines(ours).to_pylist()
        assert lines == written.read_text().splitlines()


@pytest.mark.parametrize("option", ["timestampNTZFormat", "dateFormat"])
def test_a_pattern_of_times_without_a_zone_has_none(option):
    """Spark's writer fails, too."""
    given = {"path": "x", "format": "csv", option: "yyyy-MM-dd XXX"}
    with pytest.raises(BadConfigurationError, match=f"'{option}': the values have no zone that 'XXX' could show"):
        create_writer(
            pa.schema([("p", pa.timestamp("us"))]), WriteOptions.from_values(SINK_OPTIONS.parse(given, owner="sink"))
        )


def test_a_corrupt_file_is_left_out_of_the_schema(source_harness, tmp_path, caplog):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [1]}), tmp_path / "b.parquet")
    for merge in ("false", "true"):
        given = {"format": "parquet", "mergeSchema": merge}
        with pytest.raises(BadConfigurationError, match="could not be inferred"):
            source_harness.source(tmp_path, **given).infer_schema()
        source = source_harness.source(tmp_path, **given, ignoreCorruptFiles="true")
        assert source.infer_schema().names == ["id"] and "a.parquet is left out" in caplog.text
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(BadConfigurationError, match="all 1 files are corrupt"):
        source_harness.source(tmp_path, format="parquet", ignoreCorruptFiles="true").infer_schema()


@pytest.mark.parametrize(("cost", "tasks"), [("0", 1), ("4mb", 2), ("128mb", 64)])
def test_opening_a_file_costs_what_the_option_says(source_harness, tmp_path, cost, tasks):
    """As many tasks as Spark makes of 64 small files on one core."""
    for number in range(64):
        (tmp_path / f"{number:02}.txt").write_text("x\n")
    source = source_harness.source(tmp_path, format="text", openCostInBytes=cost)
    splits = source_harness.splits(source)
    assert len(source.assign_splits(splits, parallelism=1)) == tasks
