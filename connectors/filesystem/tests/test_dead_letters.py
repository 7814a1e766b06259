"""Dead letters of files: what the source marks, and every way in which Spark writes."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.dead_letters import LETTER_DDL, LETTER_TYPE
from penstock.errors import BadConfigurationError
from penstock_filesystem import FileSystemConnector
from suite.letters import letters_in, to_folder
from suite.sources import SourceHarness

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string()), ("_bad_record", LETTER_TYPE)])
LINES = ['{"id": 1, "note": "one"}', '{"id": "x"}', "not JSON", '{"id": 2}', '[{"id": "a"}, {"id": "b"}]']


def source(folder, **options):
    where = {"path": str(folder), "format": "json"}
    return SourceHarness(FileSystemConnector(), where, badRecords="deadLetter", **options)


def inferred(folder, **options):
    given = {"path": str(folder), "format": "json", "badRecords": "deadLetter", **options}
    parsed = FileSystemConnector.source_options.parse(given, owner="source")
    return FileSystemConnector().create_source(parsed).infer_schema().names


def put(folder, lines=LINES):
    folder.mkdir(exist_ok=True)
    (folder / "1.json").write_text("".join(f"{line}\n" for line in lines))


# --- the source -------------------------------------------------------------------------------------------------------


def test_a_bad_row_is_one_letter_with_its_bytes_and_its_place(tmp_path):
    put(tmp_path / "in")
    made = source(tmp_path / "in")
    rows = made.rows(SCHEMA)
    assert [row["id"] for row in rows if row["_bad_record"] is None] == [1, 2]
    found = [row["_bad_record"] for row in rows if row["_bad_record"] is not None]
    assert [letter["value"].decode() for letter in found] == [LINES[1], LINES[2], LINES[4]]
    data = (tmp_path / "in" / "1.json").read_bytes()
    assert all(data[letter["offset"] :].startswith(letter["value"]) for letter in found)
    assert {(one["stage"], one["connector"], one["source"]) for one in found} == {
        ("source", "filesystem", str(tmp_path / "in" / "1.json"))
    }
    assert made.metrics.snapshot()["bad_rows"] == 3


@pytest.mark.parametrize(
    ("kind", "data", "bad", "fields"),
    [
        ("csv", b"1,one\nx,two\n3\n4,\xff\n", [b"x,two", b"3", b"4,\xff"], ["id", "note"]),
        ("text", b"one\n\xfe\xff\ntwo\n", [b"\xfe\xff"], ["value"]),
    ],
)
def test_other_formats_of_text(tmp_path, kind, data, bad, fields):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"1.{kind}").write_bytes(data)
    types = {**{name: SCHEMA.field(name).type for name in SCHEMA.names}, "value": pa.string()}
    schema = pa.schema([(name, types[name]) for name in ("_bad_record", *fields)])
    rows = source(tmp_path / "in", format=kind).rows(schema)
    assert [row["_bad_record"]["value"] for row in rows if row["_bad_record"] is not None] == bad
    good = [row for row in rows if row["_bad_record"] is None]
    assert len(good) + len(bad) == data.count(b"\n")
    if kind == "text":
        assert [row["value"] for row in good] == ["one", "two"]
        assert source(tmp_path / "in", format=kind).schema().names == ["value", "_bad_record"]


def test_the_schema_has_the_column(tmp_path):
    put(tmp_path / "in", LINES[3:4])
    assert inferred(tmp_path / "in") == ["id", "_bad_record"]
    assert inferred(tmp_path / "in", badRecordColumn="bad") == ["id", "bad"]
    put(tmp_path / "in", LINES)
    assert inferred(tmp_path / "in") == ["id", "note", "_bad_record"]
    with pytest.raises(BadConfigurationError, match=r"the schema needs a column for bad rows: add '_bad_record str"):
        source(tmp_path / "in").rows(SCHEMA.remove(2))


words = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)
lines = st.lists(st.one_of(words, st.integers(0, 99).map(lambda n: json.dumps({"id": n}))), max_size=20)


@settings(max_examples=60)
@given(lines)
def test_every_line_is_a_row_or_a_letter(tmp_path_factory, written):
    folder = tmp_path_factory.mktemp("in")
    put(folder, written)
    rows = source(folder).rows(SCHEMA)
    bad = [row["_bad_record"]["value"].decode() for row in rows if row["_bad_record"] is not None]
    good = [row for row in rows if row["_bad_record"] is None]
    there = [line for line in written if line.strip()]
    assert len(good) + len(bad) >= len(there) - sum(line.strip() == "[]" for line in there)
    assert [line for line in there if line in set(bad)] == bad
    assert all(json.loads(line) is not None for line in there if line not in set(bad))


# --- Spark ------------------------------------------------------------------------------------------------------------


def ids_in(folder):
    return sorted(
        json.loads(line)["id"]
        for path in folder.glob("*.json")
        if path.name[0] not in "._"
        for line in path.read_text().splitlines()
    )


def check(folder):
    assert ids_in(folder / "rows") == [1, 2]
    assert sorted(letter["value"].decode() for letter in letters_in(folder / "letters")) == sorted(
        [LINES[1], LINES[2], LINES[4]]
    )


@pytest.mark.spark
@pytest.mark.parametrize("way", ["batch", "stream", "batch_writer", "group"])
def test_every_way_of_writing(spark, tmp_path, way):
    put(tmp_path / "in")
    options = {"path": str(tmp_path / "rows"), "format": "json", "bucketAssigner": "basePath"}
    options |= {"rollOnCheckpoint": "true", **to_folder(tmp_path / "letters")}
    checkpoint = str(tmp_path / "checkpoint")
    reader = spark.read if way == "batch" else spark.readStream
    frame = (
        reader.format("penstock.filesystem")
        .schema(f"id long, note string, _bad_record {LETTER_DDL}")
        .options(format="json", badRecords="deadLetter")
        .load(str(tmp_path / "in"))
    )
    if way == "batch":
        frame.write.format("penstock.filesystem").options(**options).mode("append").save()
        check(tmp_path)
        return
    group = penstock.SinkGroup("all", checkpoint=checkpoint, sinks={"files": ("penstock.filesystem", options)})

    def write(df, batch_id):
        if way == "batch_writer":
            writer = penstock.batch_writer(df, batch_id, checkpoint=checkpoint, name="files")
            writer.format("penstock.filesystem").options(**options).save()
        else:
            with group.batch(df, batch_id) as batch:
                batch.write("files", df)

    stream = frame.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    if way == "stream":
        stream.format("penstock.filesystem").options(**options).start().awaitTermination()
    else:
        stream.foreachBatch(write).start().awaitTermination()
    check(tmp_path)
