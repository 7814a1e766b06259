"""Columns of a pipeline file: what is known of them without Spark, and the mistakes that are found by it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock._plugins import find_connector
from penstock.cli._check import check_pipeline
from penstock.cli._check_places import check_places
from penstock.cli._columns import fields_of_arrow, select_fields, split_list, sql_outline
from penstock.cli._ddl import fields_of_ddl
from penstock.serialization.formats import FORMAT_OPTIONS

FIELDS = fields_of_ddl("key binary, value struct<city: string, at: timestamp, place: struct<x: int, y: int>>, n long")


def test_fields_of_schemas():
    value = {"city": "string", "at": "timestamp", "place": {"x": "int", "y": "int"}}
    assert {"key": "binary", "value": value, "n": "long"} == FIELDS
    place = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    value = pa.struct([("city", pa.string()), ("at", pa.timestamp("us", "UTC")), ("place", place)])
    read = fields_of_arrow(pa.schema([("key", pa.binary()), ("value", value), ("n", pa.int64())]))
    assert read == {**FIELDS, "n": "bigint"}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ["a"]),
        ("a, b.c AS d", ["a", "b.c AS d"]),
        ("f(a, b), c", ["f(a, b)", "c"]),
        ("concat(a, ',', \"(\"), b", ["concat(a, ',', \"(\")", "b"]),
    ],
)
def test_lists_are_split_at_their_own_commas(text, parts):
    assert split_list(text) == parts


@pytest.mark.parametrize(
    ("items", "names"),
    [
        (["key", "value.at"], ["key", "at"]),
        (["VALUE.At AS when", "t.n"], ["when", "n"]),
        (["value.*", "n"], ["city", "at", "place", "n"]),
        (["*", "value.place.x x"], ["key", "value", "n", "x"]),
        (["upper(value.city) AS city", "city"], ["city"]),
        (["current_timestamp AS now", "null AS nothing"], ["now", "nothing"]),
        (["window.start AS begin"], ["begin"]),
        (["t.*"], ["key", "value", "n"]),
        (["upper(value.city)"], None),
    ],
)
def test_what_a_list_of_columns_makes(items, names):
    made = select_fields(items, FIELDS, "t")
    assert made.problems == ()
    assert (None if made.fields is None else list(made.fields)) == names


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ("kye", "there is no column 'kye'; did you mean 'key'?"),
        ("value.citi", "'value' has no field 'citi'; did you mean 'city'?"),
        ("value.place.zzzzz", "'value.place' has no field 'zzzzz'; there are: x, y"),
        ("key.*", "'key' is no struct, so 'key.*' has no fields to take"),
    ],
)
def test_a_column_that_is_not_there(item, problem):
    assert select_fields([item], FIELDS).problems == (problem,)


@pytest.mark.parametrize(
    ("sql", "outline"),
    [
        ("SELECT a, b FROM t", (("a", "b"), "t", "t")),
        ("select a from t x where a > 'select'", (("a",), "t", "x")),
        ("SELECT a -- from u\nFROM t GROUP BY a", (("a",), "t", "t")),
        ("SELECT extract(year FROM at) FROM t", None),
        ("SELECT DISTINCT a FROM t", None),
        ("SELECT a FROM t JOIN u USING (a)", None),
        ("SELECT a FROM t, u", None),
        ("SELECT a FROM t WHERE a IN (SELECT b FROM u)", None),
        ("SELECT a FROM t UNION ALL SELECT a FROM u", None),
        ("WITH t AS (SELECT 1) SELECT a FROM t", None),
        ("SELECT a FROM db.t", None),
    ],
)
def test_queries_whose_columns_are_looked_at(sql, outline):
    found = sql_outline(sql)
    assert (None if found is None else (found.items, found.table, found.alias)) == outline


SOURCE = """
source:
  format: parquet
  schema: "id long, value struct<city: string, at: timestamp>"
  options: {path: in/}
  EXTRA
views:
  MORE
sink: {format: parquet, options: {path: out/}}
checkpoint: ck
"""


def mistakes(tmp_path, extra="select: value.*", more="v: SELECT 1 AS one FROM source"):
    path = tmp_path / "p.yaml"
    path.write_text(SOURCE.replace("EXTRA", extra).replace("MORE", more))
    return [str(mistake) for mistake in check_pipeline(path, {})[1]]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (
            "watermark: {column: value.at, delay: 1 minute}",
            "6:23: Spark takes a watermark of a column at the top level only, and 'at' is a field of 'value': write "
            "'flatten: value' or 'value.at AS at' in a select before it, and 'column: at'",
        ),
        (
            "watermark: {column: at, delay: 1 minute}",
            "6:23: 'watermark': there is no column 'at'; there are: id, value",
        ),
        (
            "watermark: {column: id, delay: 1 minute}",
            "6:23: 'watermark': column 'id' is of type long, and event time is a timestamp: make one of it with "
            "'select' or in a view",
        ),
        ("flatten: vale", "6:12: 'flatten': there is no column 'vale'; did you mean 'value'?"),
        ("flatten: id", "6:12: 'flatten': 'id' is no struct, so it has no fields"),
        ("select: [id, value.citi]", "6:16: 'value.citi': 'value' has no field 'citi'; did you mean 'city'?"),
        ("select: [id, '']", "6:16: 'select' has an empty entry"),
        ("{select: value.*}", None),
    ],
)
def test_mistakes_of_a_source(tmp_path, extra, expected):
    found = mistakes(tmp_path, extra)
    assert found if expected is None else [one for one in found if one == expected], found


@pytest.mark.parametrize(
    "extra",
    [
        "flatten: value\n  watermark: {column: at, delay: 1 minute}",
        "select: [id, value.at AS at]\n  watermark: {column: at, delay: 1 minute}",
        "flatten: value\n  select: [at, upper(city) AS city]\n  watermark: {column: at, delay: 1 minute}",
    ],
)
def test_nested_columns_before_the_watermark(tmp_path, extra):
    assert mistakes(tmp_path, extra) == []


def test_two_columns_of_one_name(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(
        SOURCE.replace("city: string", "id: string")
        .replace("EXTRA", "flatten: value")
        .replace("MORE", "v: SELECT 1 AS a FROM source")
    )
    (said,) = [str(one) for one in check_pipeline(path, {})[1]]
    assert said == "6:12: 'flatten': two columns would be called 'id': use 'select', and rename one"


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        ("v: SELECT cty FROM source", "'v' takes from 'source': there is no column 'cty'; did you mean 'city'?"),
        ("v: SELECT s.att FROM source s", "'v' takes from 'source': there is no column 'att'; did you mean 'at'?"),
        (
            "v: SELECT city, count(*) AS n FROM source GROUP BY city",
            "'v' makes groups of a stream without a watermark, and mode 'append' writes a group once it is complete: "
            "give the source, or a view before it, a 'watermark', and group by its column or a window of it",
        ),
        ("v: SELECT count(*) AS n FROM source", "'v' makes groups of a stream without a watermark"),
        ("{u: SELECT city FROM source, v: SELECT city FROM u GROUP BY city}", "'v' makes groups of a stream"),
        ("{u: SELECT city FROM source GROUP BY city, v: SELECT city FROM u}", "'u' makes groups of a stream"),
        ("v: {sql: SELECT city FROM source, watermark: {column: att, delay: 1s}}", "'watermark': there is no column"),
        (
            "v: {sql: SELECT city AS c FROM source, watermark: {column: c, delay: 1s}}",
            "'watermark': column 'c' is of type string, and event time is a timestamp",
        ),
        ("v: {sql: SELECT city FROM source, watermark: {column: at, delay: 10}}", "'10' has no unit: write 10 seconds"),
    ],
)
def test_mistakes_of_views(tmp_path, view, expected):
    found = mistakes(tmp_path, more=view)
    assert any(expected in one for one in found), found


@pytest.mark.parametrize(
    "view",
    [
        "v: SELECT upper(city) AS c, at FROM source WHERE city = 'FROM nowhere GROUP BY'",
        "v: {sql: SELECT city FROM source, python: 'p.py:f'}",
        "{u: \"SELECT from_json(city, 'a int') AS made FROM source\", v: SELECT made.* FROM u}",
        "v: {sql: SELECT to_timestamp(city) AS c FROM source, watermark: {column: c, delay: 1s}}",
        "v: SELECT s.city FROM source s JOIN (SELECT city, count(*) AS n FROM cities GROUP BY city) t USING (city)",
        "v: {sql: 'SELECT window(at, \"1 minute\").start AS w, count(*) AS n FROM source GROUP BY 1'}",
        "{u: {sql: SELECT at FROM source, watermark: {column: at, delay: 1s}}, v: SELECT at FROM u GROUP BY at}",
    ],
)
def test_what_may_be_right_is_left_to_spark(tmp_path, view):
    marked = "watermark: {column: at, delay: 1s}" if "window" in view else ""
    found = mistakes(tmp_path, f"select: value.*\n  {marked}", view)
    assert not [one for one in found if "makes groups" in one or "no column" in one], found


@pytest.mark.parametrize(
    ("scheme", "extra"),
    [
        *((scheme, "s3") for scheme in ("s3", "s3a", "s3n")),
        *((scheme, "azure") for scheme in ("abfs", "abfss", "wasb", "wasbs")),
        ("gs", "gcs"),
        *((scheme, "hdfs") for scheme in ("hdfs", "viewfs")),
    ],
)
def test_the_package_of_every_scheme_is_looked_for(tmp_path, monkeypatch, scheme, extra):
    monkeypatch.setattr("penstock.storage._packages.find_spec", lambda name: None)
    path = tmp_path / "p.yaml"
    sink = f"sink: {{format: penstock.filesystem, options: {{path: '{scheme}://b@h/out'}}}}"
    path.write_text(f"source: {{format: rate}}\n{sink}\ncheckpoint: ck\n")
    pipeline, _ = check_pipeline(path, {})
    assert pipeline is not None
    (found,) = check_places(pipeline)
    assert f"{scheme}:// needs " in str(found) and f"pip install 'penstock[{extra}]'" in str(found)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("magnet://b/out", "no file system for 'magnet://'"),
        ("s3:///out", "names no bucket: write s3://bucket/prefix"),
        ('"a\\0b"', "no file system takes a NUL character"),
        ("hdfs://h:99999/out", "'hdfs://h:99999/out': the port of the name node is not a number from 1 to 65535"),
        ("'hdfs://[::1]:0/out'", "the port of the name node is not a number from 1 to 65535"),
    ],
)
@pytest.mark.parametrize("place", ["path", "checkpoint"])
def test_an_address_that_no_store_has(tmp_path, address, said, place):
    path = tmp_path / "p.yaml"
    sink = f"{{format: penstock.filesystem, options: {{path: {address if place == 'path' else 'out'}}}}}"
    checkpoint = address if place == "checkpoint" else "ck"
    path.write_text(f"source: {{format: rate}}\nsink: {sink}\ncheckpoint: {checkpoint}\n")
    pipeline, found = check_pipeline(path, {})
    found = [str(one) for one in (*found, *(check_places(pipeline) if pipeline else ()))]
    assert any(said in one for one in found), found


_SINKS = {
    "cassandra": "keyspace: a, table: b",
    "kafka": "kafka.bootstrap.servers: 'h:1', topic: t, kafka.security.protocol: ssl",
    "pravega": "controller: 'tls://h:1', stream: a/b",
}


@pytest.mark.parametrize(
    ("connector", "option"),
    [
        ("cassandra", "tls: true, tls.caFile"),
        ("cassandra", "tls: true, tls.certFile"),
        ("cassandra", "bundle"),
        ("kafka", "kafka.ssl.ca.location"),
        ("kafka", "KAFKA.ssl.Certificate.location"),
        ("kafka", "value.format: avro, value.format.schema.registry.url: 'https://h', value.format.ssl.ca.location"),
        ("pravega", "TLS.cafile"),
    ],
)
def test_a_file_that_an_option_names_is_looked_for(tmp_path, connector, option):
    for name, count in (("there.pem", 0), ("absent.pem", 1)):
        (tmp_path / "there.pem").write_text("")
        path = tmp_path / "p.yaml"
        options = f"{_SINKS[connector]}, {option}: {tmp_path / name}"
        sink = f"{{format: penstock.{connector}, options: {{{options}}}}}"
        path.write_text(f"source: {{format: rate}}\nsink: {sink}\ncheckpoint: ck\n")
        pipeline, mistakes = check_pipeline(path, {})
        assert pipeline is not None and not [one for one in mistakes if not one.is_warning], mistakes
        found = [str(one) for one in check_places(pipeline)]
        assert len(found) == count
        assert all(f"warning: there is no {tmp_path / name} on this machine" in one for one in found), found


def test_an_option_that_is_called_after_a_file_declares_that_it_names_one():
    connectors = [find_connector(name).load() for name in ("cassandra", "filesystem", "kafka", "pravega")]
    sets = [one for each in connectors for one in (each.source_options, each.sink_options) if one is not None]
    options = [option for declared in (*sets, *FORMAT_OPTIONS.values()) for option in declared]
    called = [one for one in options if one.name.endswith(("File", ".location"))]
    assert {"descriptorFile", "keycloakFile", "ssl.ca.location", "tls.caFile"} <= {one.name for one in called}
    assert [one.name for one in called if one.kind != "file"] == []


@pytest.mark.parametrize("obstacle", ["file", "loop", "dangling"])
@pytest.mark.parametrize("spelled", ["{}", "{}/below", "file://{}"])
@pytest.mark.parametrize("place", ["path", "checkpoint"])
def test_something_stands_where_a_directory_is_needed(tmp_path, obstacle, spelled, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    there = spelled.format(tmp_path / obstacle)
    path = tmp_path / "p.yaml"
    sink = f"{{format: penstock.filesystem, options: {{path: '{there if place == 'path' else 'out'}'}}}}"
    text = f"source: {{format: rate}}\nsink: {sink}\ncheckpoint: '{there if place == 'checkpoint' else 'ck'}'\n"
    path.write_text(text)
    pipeline, found = check_pipeline(path, {})
    assert pipeline is not None and not found
    (mistake,) = check_places(pipeline)
    assert mistake.text == f"{tmp_path}/{obstacle} is no directory, and one is needed: choose another path"
    # In another file system, that path is another one.
    path.write_text(f"{text}spark: {{spark.hadoop.fs.defaultFS: 'hdfs://h'}}\n")
    pipeline, _ = check_pipeline(path, {})
    assert pipeline is not None and (check_places(pipeline) == []) == (not there.startswith("file:"))


def test_what_is_missing_on_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.storage._packages.find_spec", lambda name: None)
    path = tmp_path / "p.yaml"
    path.write_text(
        """
source: {format: penstock.filesystem, schema: id long, options: {path: in/, format: csv}}
sink: {format: penstock.filesystem, options: {path: s3://b/out}}
checkpoint: gs://b/ck
"""
    )
    pipeline, found = check_pipeline(path, {})
    assert pipeline is not None and not found
    assert [str(one) for one in check_places(pipeline)] == [
        f"2:72: warning: there is no {tmp_path}/in/ on this machine, and nothing is read until it is there",
        "3:53: s3:// needs boto3: pip install 'penstock[s3]'",
        "4:13: gs:// needs google.cloud.storage: pip install 'penstock[gcs]'",
    ]
    (tmp_path / "in").mkdir()
    monkeypatch.undo()
    assert not [one for one in check_places(pipeline) if one.is_warning]
