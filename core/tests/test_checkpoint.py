"""Finishing and inspecting a query from its checkpoint alone."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from penstock._commit import run_task
from penstock._plugins import find_connector
from penstock.checkpoint import finish, open_stored_query, query_id_of, remember_sink, take_over
from penstock.checkpoint._stored import read_sink, store_sink
from penstock.errors import BadConfigurationError, FatalError
from penstock.retry import NO_RETRIES
from penstock.sink import WriterContext
from penstock.spark._known_query import _known, known_query
from penstock.spark._query_driver import QueryDriver
from penstock.storage import LocalStorage

GOLDEN = Path(__file__).parent / "golden" / "checkpoint-v1"


@pytest.fixture
def checkpoint(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "ck")
    return tmp_path / "ck"


def test_checkpoint_of_format_1_opens(checkpoint):
    query = open_stored_query(str(checkpoint))
    assert (query.connector_name, query.query_id) == ("filesystem", "0b53ab65-4a2c-4f10-9a4d-a54a8f1f64c9")
    assert query.schema == pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    assert query.chain.head().link.number == -1


def test_options_of_the_call_replace_stored_ones(checkpoint, tmp_path):
    query = open_stored_query(str(checkpoint), {"PATH": str(tmp_path / "elsewhere")})
    assert query.sink._layout.root == str(tmp_path / "elsewhere")


def test_secrets_are_not_stored(tmp_path):
    connector = find_connector("filesystem").load()
    values = connector.sink_options.parse(
        {"path": "/x", "s3.key": "anna", "s3.secret": "hunter2", "s3.region": "r"}, owner="t"
    )
    remember_sink(LocalStorage(), str(tmp_path), "filesystem", values, pa.schema([("id", pa.int64())]))
    stored = (tmp_path / "penstock" / "sink.json").read_text()
    assert "hunter2" not in stored and "s3.region" in stored
    before = (tmp_path / "penstock" / "sink.json").stat().st_mtime_ns
    remember_sink(LocalStorage(), str(tmp_path), "filesystem", values, pa.schema([("id", pa.int64())]))
    assert (tmp_path / "penstock" / "sink.json").stat().st_mtime_ns == before


def test_what_is_no_checkpoint_is_said(tmp_path, checkpoint):
    with pytest.raises(BadConfigurationError, match="has no 'metadata' file"):
        finish(str(tmp_path / "nowhere"))
    (checkpoint / "penstock" / "sink.json").unlink()
    with pytest.raises(BadConfigurationError, match="no penstock sink has written"):
        finish(str(checkpoint))
    assert query_id_of(LocalStorage(), str(checkpoint)).startswith("0b53ab65")


@pytest.mark.parametrize("log", ["offsets/0", "commits/0"])
def test_a_checkpoint_without_its_metadata_is_no_target_of_batch_writes(checkpoint, log):
    (checkpoint / "metadata").unlink()
    (checkpoint / log).parent.mkdir(exist_ok=True)
    (checkpoint / log).write_text("v1")
    (checkpoint / "penstock" / "decisions").mkdir(exist_ok=True)
    (checkpoint / "penstock" / "decisions" / "0.json").write_text("{}")
    for command in (finish, take_over):
        with pytest.raises(BadConfigurationError, match="no 'metadata' file: put that back from a copy"):
            command(str(checkpoint))


def test_newer_form_is_refused(checkpoint):
    path = checkpoint / "penstock" / "sink.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 9}))
    with pytest.raises(FatalError, match="newer penstock"):
        open_stored_query(str(checkpoint))


def test_finish_without_anything_open_does_nothing(checkpoint, tmp_path):
    assert finish(str(checkpoint), {"path": str(tmp_path / "out")}) == []


def test_finish_waits_for_the_store_of_the_checkpoint(checkpoint, tmp_path, monkeypatch):
    """Also while it does not know yet what the query's own retryTimeout is."""
    scandir, failures = os.scandir, ["place.json", "decisions"]

    def away(path):
        if failures and str(path).endswith(failures[0]):
            raise OSError(errno.EIO, "Input/output error", failures.pop(0))
        return scandir(path)

    def read(path, mode):
        if failures and str(path).endswith(failures[0]):
            raise OSError(errno.EIO, "Input/output error", failures.pop(0))
        return open(path, mode)

    monkeypatch.setattr("penstock.storage._local.os.scandir", away)
    monkeypatch.setattr("penstock.storage._local.open", read, raising=False)
    options = {"path": str(tmp_path / "out")}
    assert finish(str(checkpoint), options) == [] and failures == []
    failures.append("decisions")
    with pytest.raises(OSError, match="Input/output error"):
        open_stored_query(str(checkpoint), options).chain.head()
    failures.append("decisions")
    assert open_stored_query(str(checkpoint), options, waits=True).chain.head().link.number >= -1
    failures.append("decisions")
    impatient = open_stored_query(str(checkpoint), {**options, "retryTimeout": "0"}, waits=True)
    with pytest.raises(OSError, match="Input/output error"):
        impatient.chain.head()


def test_what_killed_writes_left_is_removed_when_a_run_begins(checkpoint, tmp_path, leave_killed_writes):
    left = [leave_killed_writes(checkpoint / "penstock", name) for name in ("place.json", "sink.json")]
    sink = find_connector("filesystem").load()
    options = sink.sink_options.parse({"path": str(tmp_path / "out")}, owner="test")
    known_query(LocalStorage(), str(checkpoint)).begin("filesystem", options, pa.schema([("id", pa.int64())]))
    assert all(one.swept for one in left)


def test_rows_for_a_former_target_are_finished_as_the_error_says(tmp_path):
    connector, checkpoint = find_connector("filesystem").load(), tmp_path / "ck"
    schema = pa.schema([("id", pa.int64())])
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "0b53ab65-4a2c-4f10-9a4d-a54a8f1f64c9"}')
    (checkpoint / "offsets" / "0").write_text("v1\n{}\n{}")

    def start(target):
        _known.clear()  # a new process
        options = connector.sink_options.parse({"path": str(tmp_path / target)}, owner="test")
        sink = connector.create_sink(options, schema)
        return QueryDriver(sink, schema, "filesystem", options, str(checkpoint), "session", NO_RETRIES)

    driver = start("before")
    plan = driver.plan()
    context = WriterContext(plan.planned.query_id, schema, batch_id=0, writer_index=0, attempt_id="a" * 32)
    result = run_task(driver.sink, plan, context, [pa.record_batch([[1, 2]], schema=schema)])
    driver.protocol([result]).commit(0, [result])
    (checkpoint / "commits" / "0").write_text("v1\n{}")
    (checkpoint / "offsets" / "1").write_text("v1\n{}\n{}")
    for _ in range(2):
        with pytest.raises(BadConfigurationError, match=f"run penstock finish --take-over {checkpoint} first"):
            start("after").plan()
    (finished,) = take_over(str(checkpoint))
    assert finished.published and [*(tmp_path / "before").rglob("part*")] != []
    assert start("after").plan().planned.batch_id == 1


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [
        ("cassandra", {"keyspace": "k", "table": "t", "ttl": "5"}, {"keyspace": "k", "table": "t", "ttlColumn": "x"}),
        ("filesystem", {"path": "/a", "bucketPattern": "yyyy"}, {"path": "/a", "partitionColumns": "x"}),
        ("filesystem", {"path": "/a", "partitionBy": "y"}, {"path": "/a", "partitionBy": "x"}),
        ("filesystem", {"path": "/a", "partitionColumns": "y"}, {"path": "/a", "bucketAssigner": "basePath"}),
        ("pravega", {"stream": "s/t", "user": "u", "password": "p"}, {"stream": "s/t", "token": "x"}),
    ],
)
def test_options_that_are_given_now_replace_stored_ones_that_they_exclude(tmp_path, name, before, now):
    declared = find_connector(name).load().sink_options
    path, schema = f"{tmp_path}/sink.json", pa.schema([("x", pa.int64())])
    store_sink(LocalStorage(), path, name, declared.parse(before, owner="t"), schema)
    stored = read_sink(LocalStorage(), path, now).options
    assert stored.texts(secrets=True) == declared.parse(now, owner="t").texts(secrets=True)


def test_a_secret_that_is_not_given_again_is_asked_for(tmp_path):
    declared, path = find_connector("pravega").load().sink_options, f"{tmp_path}/sink.json"
    given = declared.parse({"stream": "s/t", "user": "u", "password": "p"}, owner="t")
    store_sink(LocalStorage(), path, "pravega", given, pa.schema([]))
    with pytest.raises(BadConfigurationError, match="option 'user' needs the option 'password'"):
        read_sink(LocalStorage(), path, {})
