"""What `penstock run --check` knows of a sink without Spark and without a server: its options, and the rows it gets."""

from __future__ import annotations

import json

import pytest

from penstock.cli._check import check_pipeline
from penstock.connector import Connector

FILES = ("penstock.filesystem", {"path": "out"})
RECORDS = {"kafka.bootstrap.servers": "h:9092", "topic": "t"}
KAFKA = ("penstock.kafka", {**RECORDS, "keyColumns": "name", "value.format": "json"})
TABLE = ("penstock.cassandra", {"keyspace": "k", "table": "t"})
STREAM = ("penstock.pravega", {"controller": "tcp://h:9090", "stream": "a/b"})
#: Rows whose types are known, and rows of which the names alone are.
PLAIN = "SELECT id, at, name, value FROM source"
NAMES = "SELECT id, at, upper(name) AS name, upper(value) AS value FROM source"


def mistakes_of(tmp_path, sink, options=(), sql=PLAIN, mode="append"):
    name, needed = sink
    columns = "id long, at timestamp, name string, value string"
    source = {"format": "penstock.filesystem", "schema": columns, "options": {"path": "in", "format": "csv"}}
    given = {**needed, **dict(options)}
    (tmp_path / "in").mkdir(exist_ok=True)
    path = tmp_path / "p.yaml"
    lines = [
        f"source: {json.dumps(source)}",
        f"transform: {{sql: {json.dumps(sql)}}}",
        "sink:",
        f"  format: {name}",
        f"  mode: {mode}",
        "  options:",
        *(f"    {option}: {json.dumps(text)}" for option, text in given.items()),
        "checkpoint: ck",
    ]
    path.write_text("\n".join(lines))
    return [str(one) for one in check_pipeline(path, {})[1]]


@pytest.mark.parametrize("sink", [FILES, KAFKA, TABLE, STREAM], ids=lambda sink: sink[0])
@pytest.mark.parametrize("sql", [PLAIN, NAMES])
def test_a_sink_that_is_right_has_no_mistakes(sink, sql, tmp_path):
    assert mistakes_of(tmp_path, sink, sql=sql) == []


@pytest.mark.parametrize("sql", [PLAIN, NAMES], ids=["types known", "names known"])
@pytest.mark.parametrize(
    ("sink", "option", "more"),
    [
        *((FILES, name, {}) for name in ("partitionColumns", "bucketColumn", "operationColumn", "orderColumn")),
        (FILES, "keyColumns", {}),
        (FILES, "unavailableColumn", {}),
        (KAFKA, "keyColumns", {}),
        (KAFKA, "operationColumn", {}),
        *(
            (TABLE, name, {})
            for name in ("ttlColumn", "timestampColumn", "deleteColumn", "operationColumn", "orderColumn")
        ),
        (STREAM, "routingKey", {}),
        (STREAM, "watermark.timestamps", {"delivery": "exactly-once"}),
    ],
)
def test_an_option_names_a_column_that_the_rows_have(sink, option, more, sql, tmp_path):
    (mistake,) = mistakes_of(tmp_path, sink, {**more, option: "nmae"}, sql)
    assert mistake.endswith(f"option '{option}': the rows have no column 'nmae'; did you mean 'name'?")
    line, column, _ = mistake.split(":", 2)
    assert (tmp_path / "p.yaml").read_text().splitlines()[int(line) - 1][int(column) - 1 :] == '"nmae"'


@pytest.mark.parametrize("text", ["", " ", ",", "id,id"])
def test_a_list_of_columns_has_some_each_once(text, tmp_path):
    (mistake,) = mistakes_of(tmp_path, FILES, {"partitionColumns": text})
    assert f"{text!r} is not names of columns with commas between, each once" in mistake


@pytest.mark.parametrize("name", ["value.nope", "job.keys:of", "id.of:it"])
def test_a_field_whose_struct_is_not_known_and_a_function_may_be_there(name, tmp_path):
    assert mistakes_of(tmp_path, STREAM, {"routingKey": name}, NAMES) == []


@pytest.mark.parametrize(
    ("sink", "options", "says"),
    [
        *(
            (FILES, {"format": one, "compression": "brotli"}, f"'brotli' does not go with format {one}")
            for one in ("parquet", "orc", "avro", "csv", "json", "text", "sequencefile")
        ),
        (FILES, {"bucketAssigner": "hour"}, "'hour' is neither one of dateTime"),
        (FILES, {"rollingPolicy": "never"}, "'never' is neither one of default"),
        (FILES, {"partPrefix": "_a"}, "the prefix does not begin with"),
        (FILES, {"format": "csv", "sep": "ab"}, "'ab' is not a single ASCII character"),
        (FILES, {"bucketPattern": "../yyyy"}, "a bucket is a relative path"),
        (KAFKA, {"kafka.security.protocol": "TLS"}, "takes one of plaintext, ssl, sasl_plaintext, sasl_ssl, not 'TLS'"),
        (KAFKA, {"kafka.compression.type": "brotli"}, "takes one of none, gzip, snappy, lz4, zstd, not 'brotli'"),
        (KAFKA, {"kafka.linger.ms": "soon"}, "needs a number, not 'soon'"),
        (KAFKA, {"kafka.bootstrap.servers": "h:65536"}, "whose port is not a number from 1 to 65535"),
        (KAFKA, {"kafka.bootstrap.servers": "g:1,h:0"}, "'h:0', whose port is not a number from 1 to 65535"),
        (KAFKA, {"kafka.bootstrap.servers": "h:-1"}, "which is not host:port"),
        (KAFKA, {"kafka.bootstrap.servers": "http://h:80"}, "which is no broker's address"),
        (KAFKA, {"kafka.bootstrap.servers": ","}, "must name the brokers"),
        (KAFKA, {"kafka.sasl.mechanism": "PLIAN"}, "not 'PLIAN'; did you mean 'PLAIN'?"),
        (
            KAFKA,
            {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"},
            "username' is missing",
        ),
        (KAFKA, {"topic": "a b"}, "'a b' can't be a topic"),
        (KAFKA, {"value.format.schema.registry.url": "h:8081"}, "'h:8081' is not an http or https address"),
        (KAFKA, {"value.format.schema.registry.url": "http://g,http://h:99999"}, "is not an http or https address"),
        (KAFKA, {"value.format.schema.registry.url": "http://:8081"}, "is not an http or https address"),
        (
            KAFKA,
            {"value.format.schema.registry.url": "http://h", "value.format.max.retries": "x"},
            "'value.format.max.retries': 'x' is not a whole number",
        ),
        (KAFKA, {"value.format": "jsno"}, "no record format 'jsno' is installed; did you mean 'json'?"),
        (KAFKA, {"partitioner": "random"}, "'random' is not one of"),
        (TABLE, {"host": "h:9042"}, "write the port as the option 'port'"),
        (TABLE, {"host": "[::1]"}, "write the port as the option 'port'"),
        (TABLE, {"host": "http://h"}, "write the port as the option 'port'"),
        (TABLE, {"columns": "{"}, "option 'columns' is not JSON"),
        (STREAM, {"controller": "tcp://h:99999"}, "is not written as tcp://host:port"),
        (STREAM, {"controller": ""}, "'' is not written as tcp://host:port"),
        (STREAM, {"scope": ""}, "option 'scope'"),
        (STREAM, {"controller": "tls://h:1", "tls.caFile": ""}, "option 'tls.caFile': '' is not the path of a file"),
        (STREAM, {"stream": "a/b c"}, "are allowed"),
        (STREAM, {"value.format": "jsno"}, "no record format 'jsno' is installed; did you mean 'json'?"),
    ],
)
def test_options_that_no_rows_can_help(sink, options, says, tmp_path):
    (mistake,) = mistakes_of(tmp_path, sink, options)
    assert says in mistake
    assert not mistake.startswith("3:") or "controller" in options, "it stands at the option"


@pytest.mark.parametrize(
    ("sink", "options", "says"),
    [
        (FILES, {"bucketColumn": "name"}, "'name' is string, not a timestamp or a date: cast it"),
        (FILES, {"operationColumn": "id"}, "column 'id' is of type bigint: it must be string"),
        (FILES, {"format": "text"}, "takes exactly one string column"),
        (FILES, {"partitionColumns": "id,at,name,value"}, "names every column"),
        (STREAM, {"routingKey": "id"}, "'id'"),
    ],
)
def test_rows_that_the_sink_does_not_take(sink, options, says, tmp_path):
    (mistake,) = mistakes_of(tmp_path, sink, options)
    assert says in mistake


def test_records_of_kafka_need_a_value(tmp_path):
    sink = ("penstock.kafka", RECORDS)
    (mistake,) = mistakes_of(tmp_path, sink, sql="SELECT id FROM source")
    assert "a column 'value' is needed to write to Kafka" in mistake
    (mistake,) = mistakes_of(tmp_path, sink, {"value.format": "json"}, sql="SELECT id FROM source")
    assert "there is no column 'value': select one, such as struct(*) AS value" in mistake


@pytest.mark.parametrize("sink", [FILES, KAFKA, STREAM], ids=lambda sink: sink[0])
def test_mode_complete_is_for_rows_under_their_key(sink, tmp_path):
    (mistake,) = mistakes_of(tmp_path, sink, mode="complete")
    assert mistake.startswith("5:9: ") and "has no mode 'complete' with these options" in mistake
    assert mistakes_of(tmp_path, TABLE, mode="complete") == []
    (mistake,) = mistakes_of(tmp_path, TABLE, {"delivery": "at-least-once"}, mode="complete")
    assert "has no mode 'complete'" in mistake


@pytest.mark.parametrize("mode", ["complete", "update"])
def test_files_of_sparks_own_are_appended(mode, tmp_path):
    (mistake,) = mistakes_of(tmp_path, ("parquet", {"path": "out"}), mode=mode)
    assert "parquet takes mode 'append' only" in mistake


def test_dead_letters_are_checked_as_rows_are(tmp_path):
    letters = {
        "deadLetters.format": "kafka",
        "deadLetters.topic": "bad",
        "deadLetters.kafka.bootstrap.servers": "h:99999",
    }
    (mistake,) = mistakes_of(tmp_path, FILES, letters)
    assert "dead letters (options 'deadLetters.*'): option 'kafka.bootstrap.servers' names 'h:99999'" in mistake


def test_a_connector_that_says_nothing_is_not_asked_for_more():
    assert Connector.check_sink(None, None, None) is None


@pytest.mark.parametrize("sql", ["DROP TABLE source", "selct id FROM source", "INSERT INTO x SELECT * FROM source"])
def test_a_view_is_a_query(sql, tmp_path):
    (mistake,) = [one for one in mistakes_of(tmp_path, FILES, sql=sql) if "warning" not in one]
    assert mistake.startswith("2:12: ") and f"begins with '{sql.split()[0]}', and a view is a query" in mistake


@pytest.mark.parametrize("sql", ["-- how\n(SELECT id FROM source)", "WITH a AS (FROM source) FROM a SELECT id"])
def test_queries_begin_in_several_ways(sql, tmp_path):
    assert mistakes_of(tmp_path, FILES, sql=sql) == []
