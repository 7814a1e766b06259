"""Streams without a schema: what was inferred is remembered, and so is what changed."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import BadConfigurationError, BadDataError, FatalError, RetriableError
from penstock.storage import LocalStorage, MemoryStorage
from penstock_filesystem.formats.json._reader import JsonLinesDecoder
from penstock_filesystem.source._schema_location import SCHEMA_SERIALIZER, SchemaLocation


def put_json(where, number, *objects):
    (where / f"{number}.json").write_text("".join(json.dumps(one) + "\n" for one in objects))
    os.utime(where / f"{number}.json", (number, number))


def put_parquet(where, number, **columns):
    pq.write_table(pa.table(columns), where / f"{number}.parquet")
    os.utime(where / f"{number}.parquet", (number, number))


def put_row(format_, where, number, **values):
    if format_ == "json":
        put_json(where, number, values)
    else:
        put_parquet(where, number, **{name: [value] for name, value in values.items()})


@pytest.fixture
def files(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def read(files, tmp_path, source_harness):
    """Reads everything as a query does that was started again."""

    def read(format_, **more):
        options = {"format": format_, "schemaLocation": str(tmp_path / "schema"), **more}
        source = source_harness.source(files, **options)
        assert source.remembers_schema
        schema = source.infer_schema()
        source.validate_schema(schema)
        return source_harness.read(source, schema)

    return read


def stored(tmp_path):
    return [
        dict(json.loads(path.read_text())["columns"]) for path in sorted((tmp_path / "schema").glob("schema-*.json"))
    ]


def test_new_json_fields_are_named_remembered_and_read(files, read, tmp_path):
    put_json(files, 1, {"id": 1, "n": {"x": 1}, "l": [{"a": 1}]}, {"id": 2})
    assert read("json").to_pylist() == [
        {"_corrupt_record": None, "id": 1, "l": [{"a": 1}], "n": {"x": 1}},
        {"_corrupt_record": None, "id": 2, "l": None, "n": None},
    ]
    first = {"_corrupt_record": "string", "id": "bigint", "l": "array<struct<a: bigint>>", "n": "struct<x: bigint>"}
    assert stored(tmp_path) == [first]
    put_json(files, 2, {"id": 3, "late": True}, {"id": 1.5, "n": {"y": "z"}, "l": [{}, {"b": 1}], "late": None})
    with pytest.raises(BadDataError, match=r"2\.json has columns that the schema lacks, .*: late\. .*start the query"):
        read("json")
    last = {**first, "id": "double", "l": "array<struct<a: bigint, b: bigint>>", "n": "struct<x: bigint, y: string>"}
    assert stored(tmp_path) == [first, {**last, "late": "boolean"}]
    rows = read("json")
    assert rows.schema.names == ["_corrupt_record", "id", "l", "n", "late"] and rows["id"].to_pylist() == [1, 2, 3, 1.5]
    assert rows["late"].to_pylist() == [None, None, True, None]
    assert rows["n"].to_pylist() == [{"x": 1, "y": None}, None, None, {"x": None, "y": "z"}]


def test_new_columns_are_named_remembered_and_read(files, read, tmp_path):
    put_parquet(files, 1, id=pa.array([1], pa.int32()), n=pa.array([{"x": 1}]))
    assert read("parquet").to_pylist() == [{"id": 1, "n": {"x": 1}}]
    put_parquet(files, 2, n=pa.array([{"y": "z"}]), id=pa.array([1 << 40]), at=pa.array([None], pa.date32()))
    with pytest.raises(BadDataError, match=r"2\.parquet has columns .* or wider types: id, n, at\. .*schema remembers"):
        read("parquet")
    assert read("parquet").to_pylist() == [
        {"id": 1, "n": {"x": 1, "y": None}, "at": None},
        {"id": 1 << 40, "n": {"x": None, "y": "z"}, "at": None},
    ]
    put_parquet(files, 3, id=pa.array([3], pa.int8()))
    assert read("parquet")["id"].to_pylist() == [1, 1 << 40, 3] and len(stored(tmp_path)) == 2
    put_parquet(files, 4, id=["text"])
    with pytest.raises(BadDataError, match=r"4\.parquet: the column 'id' is string, and bigint .*leave the file out"):
        read("parquet")
    assert len(stored(tmp_path)) == 2


@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_new_columns_may_be_ignored(files, read, tmp_path, format_):
    put = partial(put_row, format_, files)
    put(1, id=1)
    read(format_)
    put(2, id=2, b=1)
    assert read(format_, newColumns="ignore")["id"].to_pylist() == [1, 2]
    assert len(stored(tmp_path)) == 1
    with pytest.raises(BadDataError, match="schema lacks"):
        read(format_)


def test_what_comes_from_elsewhere_is_not_new(files, read, tmp_path):
    """Names of directories and of metadata columns, the column for bad rows, and what no schema has."""
    (files / "day=2026-01-02").mkdir()
    put_json(files / "day=2026-01-02", 1, {"id": 1})
    first = read("json", includeMetadata=True)
    assert first.schema.names[:3] == ["_corrupt_record", "id", "day"] and "_file_name" in first.schema.names
    more = {"id": 2, "day": 7, "_file_name": "x", "_corrupt_record": "y", "nothing": {}, "null": None, "l": [{}]}
    put_json(files / "day=2026-01-02", 2, more)
    rows = read("json", includeMetadata=True)
    assert rows["id"].to_pylist() == [1, 2] and rows["_file_name"].to_pylist() == ["1.json", "2.json"]
    assert set(map(str, rows["day"].to_pylist())) == {"2026-01-02"}
    assert stored(tmp_path) == [{"_corrupt_record": "string", "id": "bigint", "day": "date"}]


LATER = ["null", '""', "{}", "[]", "[null]", "[{}]", '{"x":null}', "1", '"a"', "[1]", '{"x":1}', '[{"y":""}]', "false"]
LATER += ['[{"y":[null,{"z":0}]}]', "1.5", '"2020-01-01"']


@pytest.mark.parametrize("place", ["new", "n", "l"])
@pytest.mark.parametrize("value", LATER)
def test_both_ways_to_look_for_new_fields_agree(files, read, place, value):
    """Blocks that Arrow takes, and rows one by one: a field without a value is none."""
    put_json(files, 1, {"id": 1, "n": {"k": 1}, "l": [{"k": 1}]})
    read("json")
    put = {"new": f'"new":{value}', "n": f'"n":{{"new":{value}}}', "l": f'"l":[{{"new":{value}}}]'}[place]
    outcomes = []
    for name, more in (("block", ""), ("rows", "bad\n")):  # a bad row makes Arrow refuse the block
        (files / "2.json").write_text(f'{{"id":2,{put}}}\n{more}')
        try:
            outcomes.append(read("json", schemaLocation=copied(files.parent, name))["id"].to_pylist()[:2])
        except BadDataError as error:
            outcomes.append("schema lacks" in str(error))
    assert outcomes[0] == outcomes[1] and outcomes[0] in ([1, 2], True)
    assert (outcomes[0] is True) == (value in LATER[7:] and value != '[{"y":""}]')


def copied(where, name):
    shutil.copytree(where / "schema", where / name)
    return str(where / name)


def test_a_field_that_is_always_null_costs_no_look_at_each_row(files, read, monkeypatch):
    put_json(files, 1, {"id": 1})
    read("json")
    put_json(files, 2, *({"id": number, "late": None} for number in range(50)))
    monkeypatch.setattr(JsonLinesDecoder, "convert", None)
    assert len(read("json")) == 51


def test_a_name_in_another_case_can_not_be_added(files, read):
    put_json(files, 1, {"id": 1})
    read("json")
    put_json(files, 2, {"ID": 2})
    with pytest.raises(BadDataError, match=r"2\.json has columns that the schema can't take: ID\. .*in another case"):
        read("json")


def test_a_schema_of_ones_own_is_refused(files, read, tmp_path, source_harness):
    put_json(files, 1, {"id": 1})
    options = {"format": "json", "schemaLocation": str(tmp_path / "schema")}
    for _ in range(2):
        with pytest.raises(BadConfigurationError, match=r"another schema than the one that is given: leave out"):
            source_harness.source(files, **options).validate_schema(pa.schema([("id", pa.int32())]))
        read("json")


@pytest.mark.parametrize("others", range(4))
def test_tasks_that_add_columns_at_once_lose_none(others):
    """Before this one stores what it has made, others store theirs."""

    class Slow(MemoryStorage):
        busy = False

        def create(self, path, data):
            if self.busy:
                self.busy = False
                for number in range(others):
                    SchemaLocation(self, "schema").add(pa.schema([(f"b{number}", pa.string())]), "2", keeps=False)
            return super().create(path, data)

    storage = Slow()
    location = SchemaLocation(storage, "schema")
    location.begin(pa.schema([("a", pa.int64())]))
    storage.busy = True
    made = location.add(pa.schema([("c", pa.bool_()), ("A", pa.int64())]), "3", keeps=False)
    assert made == location.latest() and made.names == ["a", *(f"b{number}" for number in range(others)), "c"]


def test_the_first_of_two_queries_decides():
    location = SchemaLocation(MemoryStorage(), "schema")
    first = pa.schema([("a", pa.int64())])
    assert location.begin(first) == first == location.begin(pa.schema([("b", pa.int64())])) == location.latest()


def test_a_directory_that_went_away_gets_no_first_schema_of_a_task(tmp_path):
    location = SchemaLocation(LocalStorage(), str(tmp_path / "schema"))
    with pytest.raises(RetriableError, match=r"no schema in .*schema any more: is it mounted"):
        location.add(pa.schema([("a", pa.int64())]), "1", keeps=False)
    assert not (tmp_path / "schema").exists()


def test_a_directory_that_can_not_be_used(files, read, tmp_path):
    put_json(files, 1, {"id": 1})
    (tmp_path / "schema").write_text("a file")
    with pytest.raises(BadConfigurationError, match=r"option 'schemaLocation': .*schema can't be used: .*[Dd]irectory"):
        read("json")


DAMAGED = [b"", b"{}", b"[]", b'{"version":1}', b'{"version":1,"columns":[["a","nope"]]}', b"\xff"]


@pytest.mark.parametrize("data", DAMAGED)
def test_a_damaged_file_is_named(files, read, tmp_path, data):
    put_json(files, 1, {"id": 1})
    read("json")
    (tmp_path / "schema" / "schema-000000.json").write_bytes(data)
    with pytest.raises(FatalError, match=r"schema-000000\.json, which remembers the schema, is damaged: put it back"):
        read("json")


def test_the_stored_form():
    schema = pa.schema([("a b`", pa.list_(pa.field("element", pa.int32()))), ("t", pa.timestamp("us", "UTC"))])
    data = SCHEMA_SERIALIZER.serialize(schema)
    assert data.decode() == '{"columns":[["a b`","array<int>"],["t","timestamp"]],"version":1}'
    assert SCHEMA_SERIALIZER.deserialize(1, data) == schema
    golden = (Path(__file__).parent / "golden" / "schema-v1.json").read_bytes().rstrip()
    assert SCHEMA_SERIALIZER.serialize(SCHEMA_SERIALIZER.deserialize(1, golden)) == golden


def test_a_value_that_does_not_fit_is_a_bad_row_and_stops_no_new_column(files, read, tmp_path):
    put_json(files, 1, {"id": 1, "n": {"y": 1}})
    read("json")
    put_json(files, 2, {"id": "oops"}, {"id": 2, "new": True, "n": 5})
    with pytest.raises(BadDataError, match="wider types: new"):
        read("json")
    rows = read("json")
    assert rows["id"].to_pylist() == [1, None, 2] and rows["new"].to_pylist() == [None, None, True]
    assert rows["_corrupt_record"].to_pylist()[1] == '{"id": "oops"}'


def test_a_new_column_is_found_where_few_rows_are_inferred(files, read):
    put_json(files, 1, {"id": 1})
    read("json", samplingRatio=0.1)
    put_json(files, 2, *({"id": number, "s": "x" * 100} for number in range(60_000)), {"id": 2, "new": 1})
    with pytest.raises(BadDataError, match=r"schema lacks, or wider types: s\."):
        read("json", samplingRatio=0.1)
    assert {"s", "new"} <= set(read("json", samplingRatio=0.1).schema.names)


@pytest.mark.parametrize("row", [b'{"id":2,"new":"\xff"}', b'{"id":2,"new":"\\ud800"}', b'{"id":2,"\\udfff":1}'])
def test_a_row_that_is_no_text_brings_no_column(files, read, tmp_path, row):
    put_json(files, 1, {"id": 1})
    read("json")
    (files / "2.json").write_bytes(row + b"\n")
    assert read("json")["id"].to_pylist()[0] == 1 and len(stored(tmp_path)) == 1


def test_a_new_directory_column_is_named_remembered_and_read(files, read, tmp_path):
    put_json(files, 1, {"id": 1})
    read("json")
    (files / "day=2026-01-02").mkdir()
    put_json(files / "day=2026-01-02", 2, {"id": 2})
    with pytest.raises(BadDataError, match="wider types: day"):
        read("json")
    assert list(map(str, read("json")["day"].to_pylist())) == ["None", "2026-01-02"]


@pytest.mark.parametrize("metadata", [False, True])
def test_files_may_have_columns_called_as_metadata(files, read, metadata):
    put_json(files, 1, {"id": 1, "_file_name": "x"})
    for _ in range(2):
        rows = read("json", includeMetadata=metadata)
        assert rows.schema.names.count("_file_name") == 1 and rows["_file_name"].to_pylist() == ["1.json"]


def test_columns_without_a_value_are_none_until_they_have_one(files, read, tmp_path):
    lists = {"l": pa.array([[]], pa.list_(pa.null())), "two": pa.array([[None, None]], pa.list_(pa.null(), 2))}
    put_parquet(files, 1, id=[1], c=pa.nulls(1), **lists)
    assert read("parquet").schema.names == ["id"]
    put_parquet(files, 2, id=pa.nulls(1), c=["x"])
    with pytest.raises(BadDataError, match=r"wider types: c\."):
        read("parquet")
    assert read("parquet").to_pylist() == [{"id": 1, "c": None}, {"id": None, "c": "x"}]


def test_fields_that_differ_in_case_stay_two(files, read, tmp_path):
    put_json(files, 1, {"n": {"a": 1, "A": 2}})
    read("json")
    put_json(files, 2, {"n": {"a": 5}, "new": 1})
    with pytest.raises(BadDataError, match="wider types: new"):
        read("json")
    assert [one["n"] for one in stored(tmp_path)] == ["struct<A: bigint, a: bigint>"] * 2
    assert read("json")["n"].to_pylist() == [{"a": 1, "A": 2}, {"a": 5, "A": None}]


def test_a_damaged_file_may_bring_a_column(files, read):
    put_json(files, 1, {"id": 1})
    read("json")
    rows = "".join(f'{{"id":{number},"new":"{number * 7919}"}}\n' for number in range(300_000))
    (files / "2.json.gz").write_bytes(gzip.compress(rows.encode())[:-1000])
    with pytest.raises(BadDataError, match="wider types: new"):
        read("json", ignoreCorruptFiles=True)
    assert len(read("json", ignoreCorruptFiles=True)) > 1000


def test_a_schema_location_where_files_are_read_is_refused(files, source_harness):
    for place, refused in ((files, True), (files / "schemas", True), (files / "_schemas", False)):
        options = {"format": "json", "schemaLocation": str(place)}
        if refused:
            with pytest.raises(BadConfigurationError, match="is below the path that is read"):
                source_harness.source(files, **options)
        else:
            source_harness.source(files, **options)


PIPELINE = """
source: {format: penstock.filesystem, options: {format: json, path: in, %s}}
sink: {format: penstock.filesystem, options: {format: json, path: out}}
checkpoint: ck
"""


def test_a_pipeline_needs_no_schema_either(files, tmp_path):
    from penstock.cli._check import check_pipeline

    without = ["a stream needs a 'schema'"]
    for option, mistakes in (("schemaLocation: schemas", []), ("ignoreMissingFiles: true", without)):
        (tmp_path / "p.yaml").write_text(PIPELINE % option)
        _, found = check_pipeline(tmp_path / "p.yaml", {})
        assert [mistake.text[:25] for mistake in found] == mistakes


@pytest.mark.spark
@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_a_query_fails_at_a_new_column_and_reads_it_when_it_starts_again(spark, files, tmp_path, format_):
    """Every row arrives once, those of the batch that failed included."""

    put = partial(put_row, format_, files)

    def run():
        rows = (
            spark.readStream.format("penstock.filesystem")
            .options(format=format_, schemaLocation=str(tmp_path / "schema"), maxFilesPerTrigger=1)
            .load(str(files))
        )
        query = (
            rows.writeStream.format("penstock.filesystem")
            .options(format="json", path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    put(1, id=1, s="a")
    run()
    put(2, id=2, s="b")
    put(3, id=3, s="c", late=True)
    put(4, id=4, s="d")
    with pytest.raises(Exception, match=r"3\.\w+ has columns that the schema lacks, or wider types: late\."):
        run()
    run()
    run()
    written = [line for path in (tmp_path / "out").rglob("part-*") for line in path.read_text().splitlines()]
    rows = sorted((json.loads(line) for line in written), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == [1, 2, 3, 4] and [row["s"] for row in rows] == ["a", "b", "c", "d"]
    assert [row.get("late") for row in rows] == [None, None, True, None]


@pytest.mark.spark
def test_where_a_schema_location_makes_no_sense(spark, files, tmp_path):
    put_json(files, 1, {"id": 1})
    location = {"schemaLocation": str(tmp_path / "schema")}
    batch = spark.read.format("penstock.filesystem").options(format="json", **location)
    with pytest.raises(Exception, match=r"schemaLocation.*only.*stream"):
        batch.load(str(files)).collect()
    stream = spark.readStream.format("penstock.filesystem").options(**location)
    with pytest.raises(Exception, match=r"schemaLocation.*format"):
        stream.option("format", "csv").load(str(files)).writeStream.format("noop").start()
