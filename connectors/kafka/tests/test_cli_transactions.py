"""``penstock kafka transactions``: what it lists, and what it refuses to do by hand."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from penstock._commit import run_task
from penstock.checkpoint import BatchInFunction, home_of, open_stored_query, remember_group, remember_sink
from penstock.cli import app
from penstock.errors import BadConfigurationError
from penstock.printable import printable
from penstock.sink import WriterContext, owned
from penstock.storage import LocalStorage
from penstock_kafka import KafkaConnector
from penstock_kafka._cli import ListedTransaction, _print
from penstock_kafka.sink._committer import KafkaCommitter
from suite.hostile import TEXTS

SCHEMA = pa.schema([("value", pa.string())])
runner = CliRunner()


def call(*arguments):
    result = runner.invoke(app, ["kafka", "transactions", *arguments])
    if isinstance(result.exception, BadConfigurationError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


class Stopped(Exception):
    pass


@pytest.fixture(params=["", "all/topic"])
def checkpoint(request, kafka, tmp_path):
    """A query's checkpoint as Spark and the sink leave it, and what a task of the next batch left open.

    The sink is the query's own, or one of two members of a group of sinks.
    """
    folder, topic = tmp_path / "ck", kafka.create_topic()
    group, _, member = request.param.partition("/")
    folder.mkdir()
    (folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    connector = KafkaConnector()
    texts = {"kafka.bootstrap.servers": kafka.address, "topic": topic, "delivery": "exactly-once"}
    options = connector.sink_options.parse(texts, owner="sink penstock.kafka")
    home = home_of(str(folder), group)
    for name in (member, "other") if member else ("",):
        remember_sink(LocalStorage(), f"{home}/{name}".rstrip("/"), "kafka", options, SCHEMA)
    if group:
        remember_group(LocalStorage(), home, [member, "other"])
    (folder / "offsets").mkdir()
    (folder / "offsets" / "0").write_text("v1\n{}\n{}")
    query = open_stored_query(str(folder), sink_name=group)
    protocol = query.protocol
    plan = protocol.plan(BatchInFunction(query.spark_log, 0, "run") if group else query.spark_log)
    part = query.parts()[0]
    context = WriterContext(part.names, SCHEMA, attempt_id=uuid.uuid4().hex)
    own_plan = replace(plan, planned=replace(plan.planned, query_id=part.names))
    result = run_task(part.sink.start(context), own_plan, context, iter([pa.record_batch([["a", "b"]], schema=SCHEMA)]))
    if group:
        outputs = [
            replace(one, committables=tuple(owned(member, committable) for committable in one.committables))
            for one in result.outputs
        ]
        result = replace(result, planned=plan.planned, outputs=tuple(outputs))
    where = ["-c", str(folder), *(["--sink", request.param] if group else [])]
    return where, topic, query, protocol, result


def test_an_undecided_transaction_is_listed_and_aborted_but_never_committed(kafka, checkpoint):
    where, topic, *_ = checkpoint
    listed = json.loads(call("list", *where, "--json"))
    assert len(listed) == 1 and listed[0]["decided"] is False and f"{topic}-0" in listed[0]["partitions"]
    name = listed[0]["transactional_id"]
    text = call("list", "-b", kafka.address)
    assert name in text and "open for 0:0" in text and "not decided" not in text
    assert "not decided" in call("list", *where)
    with pytest.raises(BadConfigurationError, match="has not decided to commit"):
        call("commit", name, *where, "--yes")
    assert "aborted" in call("abort", name, *where, "--yes")
    assert "no transaction is open" in call("list", *where)
    with pytest.raises(BadConfigurationError, match="has no open transaction"):
        call("abort", name, *where, "--yes")
    assert kafka.read(topic) == []


def test_a_decided_transaction_is_committed_but_never_aborted(kafka, checkpoint, monkeypatch):
    where, topic, query, protocol, result = checkpoint

    def stop(*_):
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(KafkaCommitter, "publish", stop)
        with pytest.raises(Stopped):
            protocol.commit(0, [result])
    assert query.has_open_work()
    listed = json.loads(call("list", *where, "--json"))
    assert [one["decided"] for one in listed] == [True]
    name = listed[0]["transactional_id"]
    with pytest.raises(BadConfigurationError, match="has decided to commit"):
        call("abort", name, *where, "--yes")
    assert "committed" in call("commit", name, *where, "--yes")
    assert [record.value for record in kafka.read(topic)] == [b"a", b"b"]
    engine = BatchInFunction(query.spark_log, 0, "next run") if query.is_group else query.spark_log
    query.protocol.plan(engine)  # the query's next start finds it committed
    assert not query.has_open_work()
    assert len(kafka.read(topic)) == 2


@pytest.mark.parametrize("checkpoint", ["all/topic"], indirect=True)
def test_a_member_of_a_group_is_named(checkpoint):
    (_, folder, *_), *_ = checkpoint
    for sink, said in {
        "all": "several sinks of 'all' write to Kafka: set --sink to all/topic or all/other",
        "all/third": "'all/third' does not write to Kafka exactly once",
        "": "name one of all",
    }.items():
        with pytest.raises(BadConfigurationError, match=said):
            call("list", "-c", folder, "--sink", sink)


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(BadConfigurationError, match="name the brokers"):
        call("list")
    with pytest.raises(BadConfigurationError, match="is not the checkpoint of a streaming query"):
        call("list", "-c", str(tmp_path))


@pytest.mark.parametrize("text", TEXTS)
def test_names_of_others_are_text_on_the_screen(text, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "2000")
    _print([ListedTransaction(text, text, 1, 2, text, [text, text], None)])
    out = capsys.readouterr().out
    assert printable(out, lines=True) == out and out.count("\n") == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-c", "ck", "-b", "x:1"], "--bootstrap-servers has no effect with --checkpoint"),
        (["-b", "x:1", "--sink", "all"], "--sink has an effect only with --checkpoint"),
    ],
)
def test_flags_that_have_no_effect_are_refused(arguments, said):
    with pytest.raises(BadConfigurationError, match=said):
        call("list", *arguments)
