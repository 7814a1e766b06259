"""Third-party formats: found, given their options, read and written as ours are."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, BadDataError
from penstock.options import Option, OptionSet
from penstock_filesystem.options import SINK_OPTIONS, SOURCE_OPTIONS
from suite import third_party_formats
from suite.pages import Block, as_a_reader
from suite.third_party_formats import FixedWidth

FIXED, ARROW = "suite.third_party_formats:FixedWidth", "suite.third_party_formats:ArrowFormat"
SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])
WAYS = {"fixed": {"format": FIXED, "format.width": "12"}, "arrow": {"format": ARROW, "rollOnCheckpoint": "true"}}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with the entry points ``Fixed`` and ``broken``."""
    info = tmp_path / "site" / "some_formats-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-formats\nVersion: 1.0\n")
    points = f"[penstock.filesystem.formats]\nFixed = {FIXED}\nbroken = suite.third_party_formats:missing\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(info.parent))


@pytest.mark.parametrize("way", WAYS)
def test_what_is_written_is_read(tmp_path, sink_query, source_harness, numbers, visible, way):
    query = sink_query(tmp_path, numbers([]).schema, tasks=1, maxOpenBuckets=1, **WAYS[way])
    query.run([numbers(range(10)), numbers(range(10, 3000))])
    files = visible(tmp_path)
    assert bool(files) == (way == "arrow"), "what can be continued stays open"
    query.run([numbers(range(3000, 3100))])
    query.finish()
    assert {os.path.splitext(path)[1] for path in visible(tmp_path)} == {".txt" if way == "fixed" else ".arrow"}
    assert len(visible(tmp_path)) == (1 if way == "fixed" else 2)
    rows = source_harness.rows(tmp_path, SCHEMA, **_read(way))
    assert sorted(rows) == [(i, f"{i:0{0}d}") for i in range(3100)]


def _read(way):
    return {name: text for name, text in WAYS[way].items() if name != "rollOnCheckpoint"}


def test_many_buckets_with_files_that_can_not_be_continued(tmp_path, sink_query, source_harness, numbers, visible):
    """What makes room for another bucket is published with the batch."""
    where = {"bucketAssigner": "columns", "partitionColumns": "note", "maxOpenBuckets": "2"}
    query = sink_query(tmp_path, numbers([]).schema, tasks=1, **WAYS["arrow"], **where)
    query.run([numbers(range(5)), numbers(range(5))])
    assert query.live() == [] and len(visible(tmp_path)) == 10
    rows = source_harness.rows(tmp_path, SCHEMA, **_read("arrow"))
    assert sorted(rows) == sorted([(i, str(i)) for i in range(5)] * 2)


def test_a_file_that_can_not_be_continued_needs_a_roll_with_each_batch(tmp_path, sink_query, numbers):
    with pytest.raises(BadConfigurationError, match=r"format suite.*:ArrowFormat.*set rollOnCheckpoint to t"):
        sink_query(tmp_path, numbers([]).schema, format=ARROW)
    sink_query(tmp_path, numbers([]).schema, format=ARROW, rollingPolicy="onCheckpoint")


def test_an_entry_point_is_a_format(installed, tmp_path, source_harness):
    (tmp_path / "in").mkdir()
    with gzip.open(tmp_path / "in" / "a.txt.gz", "wb") as file:
        file.write(b"1  a  \n22 bb \n")
    source = source_harness.source(tmp_path / "in", **{"format": "fixed", "format.width": 3, "format.columns": "id,x"})
    schema = source.infer_schema()
    assert schema == pa.schema([("id", pa.string()), ("x", pa.string())])
    assert source_harness.read(source, schema).to_pylist() == [{"id": "1", "x": "a"}, {"id": "22", "x": "bb"}]
    typed = pa.schema([("id", pa.int32())])
    assert source_harness.read(source, typed).to_pylist() == [{"id": 1}, {"id": 22}]


def test_where_rows_are(tmp_path, source_harness, sink_query, numbers):
    query = sink_query(tmp_path, numbers([]).schema, tasks=1, **WAYS["fixed"])
    query.run([numbers(range(2500))])
    query.finish()
    source = source_harness.source(tmp_path, **_read("fixed"), **{"format.columns": "id,note"})
    schema = pa.schema([("id", pa.int64()), ("_file_offset", pa.int64())])
    assert [tuple(row.values()) for row in source_harness.read(source, schema).to_pylist()] == [
        (i, i) for i in range(2500)
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "fixd"}, r"'fixd' is not one of .*Fixed.*or module:Class; did you mean 'Fixed'"),
        ({"format": "fixed"}, r"format Fixed needs the option 'format\.width'"),
        ({"format": "fixed", "format.width": "0"}, r"option 'format\.width': '0' is below the least value 1"),
        ({"format": "fixed", "format.width": "3", "format.other": "1"}, r"format Fixed has no option 'format\.other'"),
        ({"format": "broken"}, "option 'format'.*missing"),
        ({"format": "nowhere:Format"}, "option 'format'.*nowhere"),
        ({"format": "os:getcwd"}, "os:getcwd is not a subclass of FileFormat"),
        ({"format": "suite.third_party_formats:FileFormat"}, "FileFormat can't (read|write): choose another"),
        ({"format": "csv", "format.width": "3"}, r"option 'format\.width'"),
    ],
)
def test_what_does_not_fit_is_said(installed, tmp_path, source_harness, sink_query, numbers, options, words):
    with pytest.raises(BadConfigurationError, match=words):
        source_harness.source(tmp_path, **options)
    with pytest.raises(BadConfigurationError, match=words):
        sink_query(tmp_path, numbers([]).schema, **options)


def test_what_a_format_says_of_columns_and_files_reaches_the_user(tmp_path, source_harness, sink_query):
    with pytest.raises(BadConfigurationError, match="'format': column 'x': fixed width takes no fractions; cast it"):
        sink_query(tmp_path, pa.schema([("x", pa.float64())]), **WAYS["fixed"])
    with pytest.raises(BadConfigurationError, match=r"compression.*gzip.*takes none"):
        sink_query(tmp_path, SCHEMA, compression="gzip", **WAYS["fixed"])
    (tmp_path / "a.txt").write_text("1  x  \n")
    given = {"format": FIXED, "format.width": 3, "format.columns": "id,note"}
    for schema, words in [
        ([("gone", pa.int64())], r"a\.txt: the column 'gone' is neither in the file.*missingColumns"),
        (
            [("note", pa.int64())],
            r"a\.txt: column 'note' holds string, which can't be read as bigint.*correct the schema",
        ),
    ]:
        with pytest.raises(BadDataError, match=words):
            source_harness.rows(tmp_path, schema, **given)
    assert source_harness.rows(tmp_path, [("gone", pa.int64())], missingColumns="null", **given) == [(None,)]
    (tmp_path / "a.txt").write_text("1  x\n")
    with pytest.raises(BadDataError, match=r"a\.txt cannot be read as suite.*has not 2 cells.*ignoreCorruptFiles"):
        source_harness.rows(tmp_path, SCHEMA, **given)
    with pytest.raises(BadConfigurationError, match="no schema to infer"):
        source_harness.source(tmp_path, **{"format": FIXED, "format.width": 3}).infer_schema()


def test_the_example_of_the_page(tmp_path, monkeypatch, sink_query, source_harness, numbers):
    page = (Path(__file__).parents[3] / "docs" / "filesystem.md").read_text()
    code = page.partition("## A format of your own")[2].partition("```python\n")[2].partition("```")[0]
    (tmp_path / "arrow_files.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    given = {"format": "arrow_files:ArrowFiles"}
    query = sink_query(tmp_path / "out", numbers([]).schema, tasks=1, rollOnCheckpoint=True, **given)
    query.run([numbers(range(10))])
    source = source_harness.source(tmp_path / "out", **given)
    assert source_harness.read(source, source.infer_schema()).num_rows == 10


def test_no_secret_is_stored_with_a_chunk(tmp_path, sink_query, numbers, monkeypatch):
    """A chunk is stored with a digest of what decides whether others may follow it."""
    with_secret = OptionSet((*FixedWidth.options, Option("key", "A secret", secret=True)))
    monkeypatch.setattr(FixedWidth, "options", with_secret)

    def digest(**more):
        query = sink_query(tmp_path, numbers([]).schema, **WAYS["fixed"], **more)
        return query.sink._format_writer.fingerprint

    assert digest() == digest(**{"format.key": "a"}) == digest(**{"format.key": "b"})
    assert digest() != digest(**{"format.columns": "a,b"})


def test_choices_are_shown_with_those_of_plugins(installed):
    for options in (SOURCE_OPTIONS, SINK_OPTIONS):
        assert options.find("format").all_choices()[-2:] == ("Fixed", "broken")


JOB = """
import penstock
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
penstock.register(spark)
rows = spark.range(100).selectExpr("id", "cast(id as string) note")
for name, format_, own, how in (
    ("fixed", "third_party_formats:FixedWidth", {"format.width": "12"}, {}),
    ("arrow", "third_party_formats:ArrowFormat", {}, {"rollOnCheckpoint": "true"}),
):
    chosen = {"format": format_, **own}
    rows.write.format("penstock.filesystem").options(**chosen, **how).mode("append").save(name)
    frame = spark.read.format("penstock.filesystem").options(**chosen).schema("id long, note string").load(name)
    assert sorted(map(tuple, frame.collect())) == [(i, str(i)) for i in range(100)]
print("all rows are there")
"""


@pytest.mark.spark
@pytest.mark.exhaustive("a Spark whose workers find the format's module; without Spark the same is shown")
def test_on_spark(tmp_path):
    shutil.copy(third_party_formats.__file__, tmp_path)
    as_a_reader(Block("job", JOB, ("all rows are there",), None), tmp_path)
