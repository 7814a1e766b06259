"""The pipeline file: every mistake in one go, each at its line and column, before Spark starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock._plugins import installed_connectors
from penstock.cli._check import check_pipeline
from penstock.cli._ddl import check_ddl
from penstock.cli._pipeline import read_pipeline

GOOD = """\
name: flights
source:
  format: csv
  schema: "id long, at timestamp"
  options:
    path: in/
    header: true
  watermark: {column: at, delay: 10 minutes}
transform:
  sql: SELECT id FROM source
sink:
  format: parquet
  options: {path: /abs/out}
trigger: availableNow
checkpoint: ck
spark: {spark.sql.shuffle.partitions: 4}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def mistakes_of(tmp_path: Path, text: str, environment: dict[str, str] | None = None) -> list[str]:
    _, mistakes = check_pipeline(write(tmp_path, text), environment or {})
    return [f"{mistake.line}:{mistake.column}: {mistake.text}" for mistake in mistakes]


def test_a_good_file(tmp_path):
    pipeline, mistakes = check_pipeline(write(tmp_path, GOOD), {})
    assert mistakes == []
    assert pipeline is not None
    (source,) = pipeline.sources
    assert (source.view, source.format, source.schema) == ("source", "csv", "id long, at timestamp")
    assert source.options == {"path": f"{tmp_path}/in/", "header": "true"}
    assert (source.watermark.column, source.watermark.delay) == ("at", "600000 milliseconds")
    assert pipeline.sinks[0].options == {"path": "/abs/out"}
    assert pipeline.sinks[0].mode == "append"
    assert pipeline.trigger.available_now
    assert pipeline.checkpoint == f"{tmp_path}/ck"
    assert pipeline.spark == {"spark.sql.shuffle.partitions": "4"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: flights", "nam: flights", "1:1: unknown key 'nam'; did you mean 'name'?"),
        ("  schema:", "  shema:", "4:3: unknown key 'shema' in 'source'; did you mean 'schema'?"),
        ("format: csv", "format: ''", "3:11: 'format' is empty: name a connector, such as penstock.kafka"),
        ("format: csv", "format: cvs", "3:11: unknown format 'cvs'; did you mean 'csv'?"),
        ("format: parquet", "format: parqet", "12:11: unknown format 'parqet'; did you mean 'parquet'?"),
        ("format: csv", "format: [csv]", "3:11: 'format' must be a single value, not a list"),
        ("format: csv", "format:", "3:10: 'format' has no value"),
        ("    header: true", "    path: other/", "7:5: key 'path' is given twice (first in line 6)"),
        ("    header: true", "    PATH: other/", "7:5: option 'PATH' is given twice (also as 'path')"),
        ("id long,", "id lng,", "4:11: bad schema: column 'id': 'lng' is not a type; did you mean 'long'?"),
        ("column: at", "column: att", "8:23: 'watermark': there is no column 'att'; did you mean 'at'?"),
        ("delay: 10 minutes", "delay: soon", "8:34: 'soon' is not a duration such as 10s, 5 minutes or 500ms"),
        ("column: at, ", "", "8:14: 'watermark' needs the key 'column'"),
        ("sql: SELECT id FROM source", 'sql: " "', "10:8: 'sql' is empty"),
        ("  sql: SELECT id FROM source", "  {}", "10:3: 'transform' takes one of 'sql' and 'python'"),
        (
            "  options: {path: /abs/out}",
            "  options: 3",
            "13:12: 'options' must be a mapping of option to value, found a single value",
        ),
        (
            "  options: {path: /abs/out}",
            "  mode: apend",
            "13:9: 'apend' is not a mode (append, update, complete); did you mean 'append'?",
        ),
        ("checkpoint: ck\n", "", "1:1: the pipeline needs the key 'checkpoint'"),
        (
            "checkpoint: ck",
            "checkpoint: ''",
            "15:13: 'checkpoint' is empty: name a directory that stays from run to run",
        ),
        (
            "checkpoint: ck",
            "checkpoint: ${CK}",
            "15:13: environment variable CK is not set; set it, or write ${CK:-default}",
        ),
        ("trigger: availableNow", "trigger: {processingTim: 1s}", "14:10: 'trigger' needs the key 'processingTime'"),
        (
            "trigger: availableNow",
            f"trigger: {{processingTime: {'9' * 5000}}}",
            f"14:27: '{'9' * 200}…' has no unit: write {'9' * 200}… seconds, or minutes, hours, …",
        ),
        (
            "trigger: availableNow",
            "trigger: {processingTime: 99999999999999999999 days}",
            "14:27: '99999999999999999999 days' is not a duration that fits into 64 bits: write a smaller one",
        ),
        (
            "trigger: availableNow",
            "trigger: {availableNow: true}",
            "14:11: 'availableNow' has no value of its own: write 'trigger: availableNow'",
        ),
        ("format: csv", "format: pensstock.csv", "3:11: unknown format 'pensstock.csv'; did you mean 'penstock.csv'?"),
        (
            "format: csv",
            "format: pensto\u0441k.csv",
            "3:11: unknown format 'pensto\u0441k.csv'; did you mean 'penstock.csv'?",
        ),
        (
            "{spark.sql.shuffle.partitions: 4}",
            "{master: local}",
            "16:9: Spark has no setting 'master': their names begin with 'spark.', as in 'spark.master'",
        ),
        (
            "{spark.sql.shuffle.partitions: 4}",
            "{spark.master: 'local[x]'}",
            "16:23: 'local[x]' is not a Spark master: write local[*], local[2], spark://host:7077, yarn or k8s://…",
        ),
        (
            "trigger: availableNow",
            "trigger: {processingTime: x}",
            "14:27: 'x' is not a duration such as 10s, 5 minutes or 500ms",
        ),
    ],
)
def test_a_mistake_is_reported_where_it_stands(tmp_path, old, new, expected):
    assert old in GOOD
    assert expected in mistakes_of(tmp_path, GOOD.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [("    header: true", "    PATH: other/"), ("trigger: availableNow", "trigger: {availableNow: true}")],
)
def test_a_mistake_is_reported_once(tmp_path, old, new):
    ours = GOOD.replace("format: csv", "format: penstock.filesystem").replace("path: in/", "format: csv\n    path: in/")
    assert len(mistakes_of(tmp_path, ours)) == 0
    assert len(mistakes_of(tmp_path, ours.replace(old, new, 1))) == 1


def test_a_loop_of_links_is_no_file(tmp_path):
    (tmp_path / "p.yaml").symlink_to("p.yaml")
    with pytest.raises(OSError, match="Too many levels"):
        check_pipeline(tmp_path / "p.yaml", {})


def test_all_mistakes_at_once_in_the_order_of_the_file(tmp_path):
    text = (
        GOOD.replace("name:", "nam:")
        .replace("id long", "id lng")
        .replace("parquet", "parqet")
        .replace("checkpoint:", "chekpoint:")
    )
    found = mistakes_of(tmp_path, text)
    assert [line.split(":")[0] for line in found] == ["1", "1", "4", "12", "15"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: the file is empty"),
        ("- a\n- b\n", "1:1: expected a mapping with the keys source, sink and checkpoint, found a list"),
        ("a: b: c\n", "1:5: not valid YAML: mapping values are not allowed here"),
        ("a: [1,\n", "2:1: not valid YAML: "),
        ("a: 1\n---\nb: 2\n", "2:1: not valid YAML: expected a single document in the stream"),
    ],
)
def test_what_is_no_pipeline_at_all(tmp_path, text, expected):
    (found,) = mistakes_of(tmp_path, text)
    assert found.startswith(expected)


def test_source_and_sources(tmp_path):
    both = GOOD + "sources: {a: {format: rate}}\n"
    assert "17:10: give either 'source' or 'sources', not both" in mistakes_of(tmp_path, both)
    several = "sources:\n  a: {format: rate}\n  b-c: {format: rate}\nsink: {format: noop}\ncheckpoint: ck\n"
    assert mistakes_of(tmp_path, several) == [
        "3:3: 'b-c' can't name a view: letters, digits and underscores only",
        "4:7: there are several sources: write 'from', with the name of one, or a view that joins them",
    ]
    neither = "sink: {format: noop}\ncheckpoint: ck\n"
    assert mistakes_of(tmp_path, neither) == ["1:1: the pipeline needs the key 'source' (or 'sources', for several)"]


def test_values_from_the_environment(tmp_path):
    text = GOOD.replace("in/", "${IN}/x").replace("/abs/out", "${OUT:-elsewhere}").replace("flights", "$${IN}")
    pipeline, _ = check_pipeline(write(tmp_path, text), {"IN": "s3://bucket", "OUT": ""})
    assert pipeline is not None
    assert pipeline.sources[0].options["path"] == "s3://bucket/x"
    assert pipeline.sinks[0].options["path"] == f"{tmp_path}/elsewhere"
    assert pipeline.name == "${IN}"


def test_an_unset_variable_is_found_inside_a_long_text(tmp_path):
    text = GOOD.replace("sql: SELECT id FROM source", "sql: |\n    SELECT id\n    FROM ${TABLE}")
    assert mistakes_of(tmp_path, text) == [
        "12:10: environment variable TABLE is not set; set it, or write ${TABLE:-default}"
    ]


LISTED = GOOD.replace("format: csv", "format: penstock.filesystem").replace("path: in/", "paths: LIST\n    format: csv")


def test_a_list_of_paths_becomes_the_options_json(tmp_path):
    text = LISTED.replace("LIST", "[a, s3://b/c]")
    pipeline, _ = check_pipeline(write(tmp_path, text), {})
    assert pipeline is not None
    assert json.loads(pipeline.sources[0].options["paths"]) == [f"{tmp_path}/a", "s3://b/c"]


@pytest.mark.parametrize("text", ['["a", "s3://b/c"]', "[1]", "nonsense"])
def test_paths_written_as_json_are_relative_to_the_file_too(tmp_path, text):
    pipeline, _ = check_pipeline(write(tmp_path, LISTED.replace("LIST", f"'{text}'")), {})
    assert pipeline is not None
    expected = json.dumps([f"{tmp_path}/a", "s3://b/c"]) if "s3" in text else text
    assert pipeline.sources[0].options["paths"] == expected


@pytest.mark.parametrize("role", ["source", "sink"])
@pytest.mark.parametrize("connector", installed_connectors(), ids=lambda one: one.name)
def test_every_path_that_a_connector_declares_is_relative_to_the_file(tmp_path, connector, role):
    made = connector.load()
    options = (made.source_options if role == "source" else made.sink_options) or ()
    declared = {option.name: "some/where" for option in options if option.kind == "path"}
    if role == "sink":
        declared |= {"deadLetters.format": "filesystem", "deadLetters.path": "some/where"}
    end = {"format": connector.format.upper(), "options": declared}
    ends = {"source": {"format": "rate"}, "sink": {"format": "noop"}, role: end}
    pipeline, mistakes = check_pipeline(write(tmp_path, json.dumps({**ends, "checkpoint": "ck"})), {})
    assert pipeline is not None, mistakes
    found = getattr(pipeline, f"{role}s")[0].options
    assert found == {name: text.replace("some", f"{tmp_path}/some") for name, text in declared.items()}


def test_paths_of_spark_are_relative_to_the_file(tmp_path):
    names = ("path", "sourceArchiveDir", "basePath")
    source = {"format": "csv", "options": dict.fromkeys(names, "some/where")}
    text = json.dumps({"source": source, "sink": {"format": "noop"}, "checkpoint": "ck"})
    pipeline = read_pipeline(write(tmp_path, text), {}).pipeline
    assert pipeline is not None
    assert pipeline.sources[0].options == dict.fromkeys(names, f"{tmp_path}/some/where")


def test_reprs_hold_no_option_values(tmp_path):
    text = GOOD.replace("header: true", "token: hunter2").replace(
        "{spark.sql.shuffle.partitions: 4}", "{a.secret: hunter2}"
    )
    pipeline = read_pipeline(write(tmp_path, text), {}).pipeline
    assert "hunter2" not in repr(pipeline)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("job.py:main", []),
        ("job:main", []),
        ("job.py:mian", ["10:11: job.py has no function 'mian'; did you mean 'main'?"]),
        ("job:mian", ["10:11: job.py has no function 'mian'; did you mean 'main'?"]),
        ("jobs:main", ["10:11: there is no module 'jobs', neither installed nor next to the pipeline file"]),
        ("no.such:main", ["10:11: module 'no.such' can't be imported: No module named 'no'"]),
        ("main", ["10:11: 'main' is not an entry point: write module:function or path/file.py:function"]),
    ],
)
def test_python_entry_points_are_looked_up_but_not_run(tmp_path, entry, expected):
    (tmp_path / "job.py").write_text("raise SystemExit('imported')\ndef main(spark, sources):\n    return None\n")
    assert mistakes_of(tmp_path, GOOD.replace("sql: SELECT id FROM source", f"python: {entry}")) == expected


def test_a_missing_or_broken_python_file(tmp_path):
    text = GOOD.replace("sql: SELECT id FROM source", "python: sub/job.py:main")
    assert mistakes_of(tmp_path, text) == [f"10:11: there is no file {tmp_path}/sub/job.py"]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/job.py").write_text("def main(:\n")
    (found,) = mistakes_of(tmp_path, text)
    assert found == f"10:11: {tmp_path}/sub/job.py is not Python: line 1: invalid syntax"
    (tmp_path / "sub/job.py").write_text("def main(): \0\n")
    (found,) = mistakes_of(tmp_path, text)
    assert found.startswith(f"10:11: {tmp_path}/sub/job.py is not Python: ")


def test_a_directory_is_no_module(tmp_path):
    (tmp_path / "steps").mkdir()
    assert mistakes_of(tmp_path, GOOD.replace("sql: SELECT id FROM source", "python: steps:main")) == [
        "10:11: module 'steps' is a directory, which has no functions: name a module in it"
    ]


@pytest.mark.parametrize(
    ("ddl", "columns"),
    [
        ("id long, at timestamp, note string", ["id", "at", "note"]),
        ("id: bigint NOT NULL COMMENT 'a, b', `odd ``name` decimal(10,2)", ["id", "odd `name"]),
        ("a array<struct<x: int, y: map<string, array<date>>>>, b interval day to second", ["a", "b"]),
        ("V VARCHAR(3), t timestamp_ntz, s string collate UTF8_LCASE, g variant", ["V", "t", "s", "g"]),
    ],
)
def test_good_schemas(ddl, columns):
    assert check_ddl(ddl) == columns


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("", "the schema is empty"),
        ("id", "column 'id': the end is not a type"),
        ("id long note string", "expected ',' after column 'id', found 'note'"),
        ("id long,", "expected a column name, found the end"),
        ("id long, ID int", "column 'id' is given twice"),
        ("a array<int", "expected '>' after the type of array, found the end"),
        ("a struct<x int", "expected '>' after column 'x', found the end"),
        ("a map<string>", "expected ',' after the key's type of a map, found '>'"),
        ("a decimal(x)", "expected a number in decimal(...), found 'x'"),
        ("a decimal(50,2)", "decimal(50,2) must have 1 to 38 digits"),
        ("a decimal(5,9)", "decimal(5,9) must have 1 to 38 digits, not more of them fractional"),
        ("a array<dec(0)>", "dec(0) must have 1 to 38 digits"),
        ("a numeric(" + "9" * 9 + ")", "numeric("),
        ("a decimal(5,2,1)", "decimal(5,2,1) must"),
        ("`a int", "a name begins with ` and does not end with it"),
        ("at timestmp", "column 'at': 'timestmp' is not a type; did you mean 'timestamp'?"),
    ],
)
def test_bad_schemas(ddl, message):
    with pytest.raises(ValueError) as raised:
        check_ddl(ddl)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[2]", "local[* , 3]", "local[4,2]", "local-cluster[2,1,1024]", "yarn", "spark://h:7077",
     "spark://a:7077,b:7077", "k8s://https://h:6443", "armada://h:50051"],
)  # fmt: skip
def test_every_master_that_spark_takes_passes(tmp_path, master):
    text = GOOD.replace("{spark.sql.shuffle.partitions: 4}", f"{{spark.master: '{master}'}}")
    assert not [one for one in mistakes_of(tmp_path, text) if "master" in one]
