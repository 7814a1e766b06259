"""The kit proves what holds, on every template. What it catches: ``core/tests/flaws``."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import uuid
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

from penstock.connector import Capability, Connector
from penstock.options import Option, OptionSet
from penstock.sink import (
    CheckpointCommitter,
    IdempotentSink,
    Sender,
    Sink,
    SinkWriter,
    Upserter,
    WriteAheadSink,
)
from penstock.source import SimpleSource
from penstock.testing import (
    SinkSuite,
    SinkTarget,
    SourceOrigin,
    SourceSuite,
    away,
)
from penstock.testing._lines import Moment
from penstock.testing._samples.connector import MinimalConnector
from penstock.testing._samples.connector._options import SinkOptions
from penstock.testing._samples.connector.sink import MinimalWriteAheadSink
from penstock.testing._samples.sink import FilesConnector
from penstock.testing._samples.source import LinesConnector
from penstock.testing._sink_crashes import _share
from penstock.testing._spark_source import with_its_package
from penstock.testing._verdict import NOTE, Case, Verdict, does_not_apply
from suite.kit import TieredSparkSinkSuite, TieredSparkSourceSuite

pytest_plugins = ["pytester"]
sys.modules.setdefault("test_kit", sys.modules[__name__])  # for the suites that are written to files


def json_target(tmp_path):
    folder = tmp_path / uuid.uuid4().hex

    def read():
        return [json.loads(line) for path in folder.glob("[!.]*") for line in path.read_text().splitlines()]

    def lose():
        for path in folder.glob(".*"):
            path.unlink()

    def hidden():
        return [path.name for path in folder.glob(".*")]

    def take():
        for path in folder.glob("[!.]*"):
            path.unlink()

    return SinkTarget({"path": str(folder)}, read, hidden, lose, lambda: away(folder), take=take)


class InAQuarter:
    """For sinks without a client, which takes memory of its own: a quarter of the rows, in a quarter of the memory.
    All of them are written in test_cli_new.py, where the same sinks are what ``penstock new`` writes.
    """

    many, most_memory_bytes = SinkSuite.many // 4, SinkSuite.most_memory_bytes // 4
    kill_seconds = 3.0


class TestFileSink(InAQuarter, SinkSuite):
    connector = FilesConnector

    @pytest.fixture
    def new_target(self, tmp_path):
        return lambda: json_target(tmp_path)


class SmallSegments(MinimalWriteAheadSink):
    segment_bytes = MinimalWriteAheadSink.segment_bytes // 4


class MinimalWithSmallSegments(MinimalConnector):
    """As many segments for a quarter of the rows."""

    def create_sink(self, options, schema):
        return SmallSegments(SinkOptions.from_values(options))


class TestMinimalSink(InAQuarter, SinkSuite):
    connector = MinimalWithSmallSegments

    @pytest.fixture
    def new_target(self, tmp_path):
        return lambda: replace(
            # What is prepared is beside the checkpoint; what was sent is sent again until it is recorded.
            json_target(tmp_path),
            lose=None,
            take=None,
        )


class TestMinimalSinkOnSpark(TieredSparkSinkSuite):
    connector, new_target = MinimalConnector, TestFileSink.new_target


class TestMinimalSource(SourceSuite):
    connector = MinimalConnector

    @pytest.fixture
    def origin(self, tmp_path, monkeypatch):
        monkeypatch.setattr(SimpleSource, "discovery_interval_ms", 10)
        folder = tmp_path / "in"
        folder.mkdir()

        def put(ids):
            whole = tmp_path / "whole"
            whole.write_text("".join(f'{{"id": {i}}}\n' for i in ids))
            whole.rename(folder / f"{uuid.uuid4()}.jsonl")

        return SourceOrigin({"path": str(folder)}, put, unreachable=lambda: away(folder))


class TestMinimalSourceOnSpark(TieredSparkSourceSuite):
    connector, origin = MinimalConnector, TestMinimalSource.origin


class TableConnector(Connector):
    """One option, a database; the class of the sink is set below."""

    sink_options = OptionSet([Option("path", "A database file", required=True)])
    capabilities = frozenset({Capability.STREAM_WRITE, Capability.EXACTLY_ONCE, Capability.RESCALING})
    sink: type

    def create_sink(self, options, schema):
        made = self.sink()
        made.path = options["path"]
        return made

    def describe_guarantee(self):
        return ""


def database(path):
    opened = sqlite3.connect(path, timeout=30)
    opened.execute("pragma synchronous = off")  # what is killed here is no machine
    opened.execute("create table if not exists rows (id integer, text text, stamp integer)")
    return opened


def rows_of(batch):
    return [(row["id"], row["text"]) for row in batch.to_pylist()]


class SqlSuite(SinkSuite):
    many = 50_000

    @pytest.fixture
    def new_target(self, tmp_path):
        def make():
            path = str(tmp_path / f"{uuid.uuid4().hex}.db")

            def read():
                with database(path) as opened:
                    return [{"id": row[0], "text": row[1]} for row in opened.execute("select id, text from rows")]

            return SinkTarget({"path": path}, read)

        return make


class UpsertingSink(IdempotentSink):
    key_columns = ("id",)

    def create_upserter(self, context):
        return SqlUpserter(self.path)


class SqlUpserter(Upserter):
    def __init__(self, path):
        self.database = database(path)
        self.database.execute("create unique index if not exists by_id on rows (id)")

    def upsert(self, batch, timestamp_us):
        rows = [(row["id"], row["text"], timestamp_us) for row in batch.to_pylist()]
        with self.database:
            self.database.executemany(
                "insert into rows values (?, ?, ?) on conflict (id) do update set text = excluded.text, "
                "stamp = excluded.stamp where excluded.stamp > stamp",
                rows,
            )

    def close(self):
        self.database.close()


class Upserting(TableConnector):
    sink = UpsertingSink


class TestIdempotent(SqlSuite):
    connector = Upserting


class SendingSink(WriteAheadSink):
    segment_bytes = 16

    def create_sender(self, context):
        return SqlSender(self.path, context)

    def create_checkpoint_committer(self, context):
        return SqlRecorder(self.path, context.query_id)


class SqlRecorder(CheckpointCommitter):
    def __init__(self, path, query):
        self.database, self.query = database(path), query
        self.database.execute("create table if not exists sent (segment text primary key, base integer, query text)")

    def is_recorded(self, segment):
        return bool(self.database.execute("select 1 from sent where segment = ?", [segment.id]).fetchall())

    def record(self, segment):
        with self.database:
            self.database.execute("insert or ignore into sent values (?, ?, ?)", [segment.id, segment.base, self.query])

    def forget(self, before_base, kept):
        with self.database:
            marks = ",".join("?" * len(kept))
            query = f"delete from sent where query = ? and base < ? and segment not in ({marks})"
            self.database.execute(query, [self.query, before_base, *kept])

    def close(self):
        self.database.close()


class SqlSender(Sender):
    def __init__(self, path, context):
        self.database, self.query = database(path), context.query_id
        self.check_owner = context.check_owner

    def send(self, batches, segment):
        with self.database:  # rows and note in one transaction: no window
            self.database.execute("insert into sent values (?, ?, ?)", [segment.id, segment.base, self.query])
            self.check_owner()
            for batch in batches:
                self.database.executemany("insert into rows values (?, ?, 0)", rows_of(batch))

    def close(self):
        self.database.close()


class Sending(TableConnector):
    sink = SendingSink


class TestWriteAhead(SqlSuite):
    connector = Sending
    many = 2_000  # a row is a segment here, and each is made durable


class LaterRecordingSink(WriteAheadSink):
    def create_sender(self, context):
        return LaterRecordingSender(self.path, context)


class LaterRecordingSender(SqlSender):
    def send(self, batches, segment):
        with self.database:
            for batch in batches:
                self.database.executemany("insert into rows values (?, ?, 0)", rows_of(batch))


class SendingWithAWindow(TableConnector):
    capabilities = frozenset({Capability.STREAM_WRITE, Capability.RESCALING})
    sink = LaterRecordingSink


@pytest.mark.exhaustive("the kit once more; TestWriteAhead is the witness, and the window's own tests")
class TestWriteAheadWithAWindow(SqlSuite):
    connector = SendingWithAWindow
    many = 2_000


class PlainSink(Sink):
    def create_writer(self, context):
        return PlainWriter(self.path, context)


class PlainWriter(SinkWriter):
    def __init__(self, path, context):
        self.database, self.context = database(path), context

    def write(self, batch):
        self.context.metrics.add("rows_written", batch.num_rows)
        with self.database:
            self.database.executemany("insert into rows values (?, ?, 0)", rows_of(batch))

    def flush(self):
        pass

    def close(self):
        self.database.close()


class Plain(TableConnector):
    capabilities = frozenset({Capability.STREAM_WRITE, Capability.RESCALING})
    sink = PlainSink


class TestAtLeastOnce(SqlSuite):
    connector = Plain


class TestLines(SourceSuite):
    connector = LinesConnector
    limit = ("maxSplitsPerTrigger", "1", 40)
    many = 20_000  # splits are tiny here, to have several

    @pytest.fixture
    def origin(self, tmp_path):
        path = tmp_path / "numbers"

        def put(ids):
            with path.open("a") as file:
                file.writelines(f"{i}\n" for i in ids)

        return SourceOrigin({"path": str(path)}, put, unreachable=lambda: away(path))


def test_rows_of_the_kit_fit_its_schema():
    assert SinkSuite().batch([1, 2]).schema.equals(SinkSuite.schema) and isinstance(
        SinkSuite().batch([]), pa.RecordBatch
    )


SKIPPING = """
import pytest
from penstock.testing import SinkSuite, SinkTarget
from penstock.testing._samples.sink import FilesConnector

class Plain(FilesConnector):
    capabilities = FilesConnector.capabilities - {{"exactly-once"}}

class TestOwn(SinkSuite):
    connector = {connector}

    @pytest.fixture
    def new_target(self, tmp_path):
        return lambda: SinkTarget({{"path": str(tmp_path / "x")}}, list)

    {case}
"""


THREE_CASES = ("-q", "-p", "no:cacheprovider", "-k", "rows_arrive or commit_twice or pickled")


def outcome(pytester, case):
    pytester.makepyfile(SKIPPING.format(connector="FilesConnector", case=case))
    return pytester.runpytest_inprocess(*THREE_CASES)


def test_a_case_that_an_author_skips_fails(pytester):
    found = outcome(pytester, '@pytest.mark.skip("slow")\n    def test_rows_arrive(self): pass')
    found.stdout.fnmatch_lines(["*Cases of the kit are not for skipping*"])
    assert found.ret == 1


def test_an_expected_failure_that_passes_fails(pytester):
    found = outcome(pytester, '@pytest.mark.xfail(reason="some day")\n    def test_rows_arrive(self): pass')
    found.stdout.fnmatch_lines(["*expected to fail*some day*and passes*"])


def test_the_report_prints_declared_against_proven(pytester):
    pytester.makepyfile(SKIPPING.format(connector="Plain", case=""))
    # In a process of its own, as an author runs it: the plugin is loaded by its entry point.
    found = pytester.runpytest_subprocess(*THREE_CASES)
    found.stdout.fnmatch_lines(
        [
            "*penstock conformance: TestOwn (Plain)*",
            "*exactly-once: not declared*",
            "*stream-write: declared, 1 of 2 cases fail",
        ]
    )


def test_the_report_prints_what_a_case_notes(pytester):
    noting = f"@pytest.fixture(autouse=True)\n    def note(self, record_property): record_property({NOTE!r}, 'half')"
    pytester.makepyfile(SKIPPING.format(connector="FilesConnector", case=noting))
    found = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", "-k", "pickled")
    found.stdout.fnmatch_lines(["*stream-write: declared and proven by 1 cases; half"])


@pytest.mark.parametrize("is_declared", [True, False])
def test_the_verdict_names_what_an_author_left_out(is_declared):
    with pytest.raises(pytest.skip.Exception) as skipped:
        does_not_apply("no reader takes rows away", "SinkTarget.take" if is_declared else "")
    verdict = Verdict()
    for how, reason in (("passed", ""), ("skipped", f"Skipped: {skipped.value.msg}")):
        verdict.add(Case("TestSink", "Own", "exactly-once", ("exactly-once",), how, reason))
    ((_, [(line, _)]),) = verdict.sections()
    assert line.partition("cases, ")[2] == "1 do not apply" + " (without SinkTarget.take)" * is_declared


def test_kills_are_counted_by_line():
    points = [Moment("a.py", 1, 1), Moment("a.py", 1, 2), Moment("a.py", 2, 1), Moment("b.py", 1, 1)]
    assert _share(points[:2], points) == "killed at 1 of 3 lines of yours in 'kill_seconds'"


def test_workers_of_spark_find_a_package_that_only_pytest_knows(tmp_path, monkeypatch):
    (tmp_path / "src" / "penstock_pip").mkdir(parents=True)
    (tmp_path / "src" / "penstock_pip" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "src")
    context = SimpleNamespace(environment={"PYTHONPATH": "before"})
    connector = type("PipConnector", (MinimalConnector,), {"__module__": "penstock_pip"})
    with with_its_package(context, connector):
        folders = context.environment["PYTHONPATH"].split(os.pathsep)
    assert folders[0] == str(tmp_path / "src") and folders[-1] == "before"
    assert context.environment == {"PYTHONPATH": "before"}
