"""Metrics: what a scrape and an OpenTelemetry reader see is what the queries' progress and decision logs say."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

import penstock
from penstock._commit import Chain, Link, LinkKind, TaskOutput
from penstock._monitoring import (
    METRICS,
    MOST_ENDED,
    RETENTION_S,
    DecisionReader,
    Kind,
    MetricsServer,
    QueryMeter,
    Registry,
    counted,
    observe,
)
from penstock.cli._run import MetricsPlace
from penstock.errors import BadConfigurationError
from penstock.serialization import Versioned
from penstock.spark import SessionMetrics
from penstock.spark._driver_counts import (
    add_driver_counts,
    new_counts_folder,
    open_counts_folder,
    read_driver_counts,
    remove_counts_folder,
)
from penstock.spark._session_metrics import _attached, _Log
from penstock.storage import LocalStorage


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def values(samples):
    """Name and labels, without the query's, of each sample."""
    found = {}
    for sample in samples:
        key = (sample.metric.name, *sample.labels[1:])
        assert key not in found or sample.metric.name == "query.info"
        found[key] = sample.value
    return found


def scraped(server):
    """Name and labels → value, as Prometheus reads them; no series comes twice."""
    with urllib.request.urlopen(server.address, timeout=10) as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def until(condition, seconds=30):
    """Waits for Spark's events, which come on threads of their own."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.05)


def progress(number=0, **more):
    return {
        "runId": "run-1",
        "batchId": number,
        "timestamp": "2026-01-31T12:00:00.000Z",
        "batchDuration": 1500,
        "durationMs": {"addBatch": 1250, "walCommit": 250},
        "numInputRows": 7,
        "sources": [source()],
        **more,
    }


def source(backlog=None, metrics=None, **more):
    reported = {"backlog": backlog or {"files": 2, "bytes": 90, "tracked_files": 5}, "metrics": metrics or {}}
    return {"numInputRows": 7, "latestOffset": reported | more}


@pytest.fixture
def registry():
    registry = Registry(partitions=3, clock=Clock())
    registry.begin("id-1", "copy", "run-1")
    return registry


# The table.


def test_names_follow_the_conventions():
    names = [metric.prometheus_name for metric in METRICS.values()]
    assert len(names) == len(set(names)) > 40
    for name, metric in METRICS.items():
        assert name == metric.name and metric.otel_name == f"penstock.{name}"
        assert metric.prometheus_name.endswith("_total") == (metric.kind is Kind.COUNTER), name
        assert metric.unit in ("s", "By") or metric.unit[0] + metric.unit[-1] == "{}"
        assert ("_seconds" in metric.prometheus_name) == (metric.unit == "s")
        assert ("_bytes" in metric.prometheus_name) == (metric.unit == "By")
        assert metric.help.endswith(".") and (not metric.labels or metric.labels[0] == "query")


def test_a_metric_that_is_not_in_the_table_is_a_mistake(registry):
    with pytest.raises(KeyError):
        registry.add("id-1", "sink.commit", 1)
    with pytest.raises(ValueError, match="gauge with the labels query, source"):
        registry.add("id-1", "source.lag", 1, "0")
    with pytest.raises(ValueError, match="labels query, source"):
        registry.set("id-1", "source.lag", 1)


# The registry.


def test_the_series_of_a_query_leave_after_its_end(registry):
    registry.add("id-1", "batches", 2)
    registry.end("id-1", "run-1", failed=True)
    assert values(registry.samples())["batches",] == 2
    assert values(registry.samples())["query.running",] == 0
    registry._clock.now += RETENTION_S + 1
    assert {sample.metric.name: sample.value for sample in registry.samples()} == {
        "queries.started": 1,
        "queries.failed": 1,
    }
    registry.add("id-1", "batches", 1)
    assert len(list(registry.samples())) == 2, "a late event brings nothing back"


def test_a_query_that_starts_again_goes_on_counting(registry):
    registry.add("id-1", "batches", 2)
    registry.end("id-1", "run-1", failed=False)
    registry.begin("id-1", "copy", "run-2")
    registry.end("id-1", "run-1", failed=False)  # Spark says so late
    registry.add("id-1", "batches", 1)
    registry._clock.now += RETENTION_S + 1
    found = values(registry.samples())
    assert found["batches",] == 3 and found["query.running",] == 1
    assert [sample.labels for sample in registry.samples() if sample.metric.name == "query.info"] == [
        ("copy", "id-1", "run-2")
    ]


def test_of_many_that_ended_the_last_stay(registry):
    for number in range(3 * MOST_ENDED):
        registry._clock.now += 0.001
        registry.begin(f"q{number}", None, "run")
        registry.end(f"q{number}", "run", failed=False)
    labels = {sample.labels[0] for sample in registry.samples() if sample.labels}
    assert len(labels) == MOST_ENDED + 1 and {"copy", f"q{3 * MOST_ENDED - 1}"} <= labels


def test_two_queries_of_one_name_are_told_apart(registry):
    registry.begin("id-2", "copy", "run-7")
    assert {sample.labels[0] for sample in registry.samples() if sample.labels} == {"copy", "id-2"}


# Spark's progress.


def test_a_batch_becomes_numbers(registry):
    meter = QueryMeter(registry, "id-1")
    meter.take_progress(progress())
    meter.take_progress(progress(1, eventTime={"watermark": "1970-01-01T00:01:00.000Z"}))
    found = values(registry.samples())
    assert found["batches",] == 2 and found["batch.time",] == 3.0 and found["batch.last",] == 1.5
    assert found["batch.phase.time", "addBatch"] == 2.5
    assert found["source.rows", "0"] == 14
    assert (found["source.lag.files", "0"], found["source.lag", "0"]) == (2, 90)
    assert found["source.tracked", "0", "files"] == 5
    assert found["query.watermark.timestamp",] == 60
    assert found["query.last_sign.timestamp",] == 1769860801.5


def test_while_a_query_is_idle_no_batch_is_counted(registry):
    meter = QueryMeter(registry, "id-1")
    meter.take_progress(progress(durationMs={"latestOffset": 3}))
    assert ("batches",) not in values(registry.samples())
    meter.saw("1970-01-01T00:02:00.000Z")
    assert values(registry.samples())["query.last_sign.timestamp",] == 120


def test_partitions_are_bounded_and_leave(registry):
    meter = QueryMeter(registry, "id-1")
    lag = {f"orders-{number}": number for number in range(12)}
    meter.take_progress(progress(sources=[source({"records": sum(lag.values()), **lag})]))
    found = values(registry.samples())
    assert found["source.lag.records", "0"] == 66 and found["source.partitions", "0"] == 12
    assert found["source.partitions.left_out", "0"] == 9
    kept = {key[2]: value for key, value in found.items() if key[0] == "source.partition.lag.records"}
    assert kept == {"orders-0": 0, "orders-1": 1, "orders-2": 2}
    meter.take_progress(progress(1, sources=[source({"records": 4, "orders-1": 4})]))
    found = values(registry.samples())
    assert [key for key in found if key[0] == "source.partition.lag.records"] == [
        ("source.partition.lag.records", "0", "orders-1")
    ]
    assert found["source.partitions.left_out", "0"] == 0


def test_streams_that_are_counted_in_bytes(registry):
    QueryMeter(registry, "id-1").take_progress(progress(sources=[source({"bytes": 30, "clicks": 10, "views": 20})]))
    found = values(registry.samples())
    assert found["source.partition.lag", "0", "clicks"] == 10 and found["source.lag", "0"] == 30


def test_what_a_source_counts_otherwise_is_not_left_out(registry):
    of_spark = {"numInputRows": 1, "latestOffset": "{}", "metrics": {"maxOffsetsBehindLatest": "8", "other": "x"}}
    QueryMeter(registry, "id-1").take_progress(progress(sources=[source({"bytes": 9, "letters": 3}), of_spark]))
    found = values(registry.samples())
    assert found["source.lag.other", "0", "letters"] == 3
    assert found["source.lag.other", "1", "maxOffsetsBehindLatest"] == 8


def test_counters_of_a_source_grow_and_begin_again_with_a_run(registry):
    meter = QueryMeter(registry, "id-1")
    for number, lost in enumerate((3, 5, 2)):
        meter.take_progress(progress(number, sources=[source(metrics={"records_lost": lost, "retry_ms": 500})]))
    QueryMeter(registry, "id-1").take_progress(progress(sources=[source(metrics={"records_lost": 1})]))
    found = values(registry.samples())
    assert found["lost.records", "source 0"] == 3 + 2 + 2 + 1
    assert found["retry.time", "source 0"] == 0.5


def test_event_times_of_partitions(registry):
    aligned = {"frontiers": {"a-0": "1970-01-01T00:00:09.000Z"}, "held": ["a-1", "a-2"], "idle": []}
    QueryMeter(registry, "id-1").take_progress(progress(sources=[source(eventTime=aligned)]))
    found = values(registry.samples())
    assert found["source.partition.event_time.timestamp", "0", "a-0"] == 9
    assert (found["source.partitions.held", "0"], found["source.partitions.idle", "0"]) == (2, 0)


def test_every_counter_is_some_metric():
    assert counted("retry_ms", 1500) == ("retry.time", (), 1.5)
    assert counted("missing_files", 2) == ("odd.files", ("missing",), 2)
    assert counted("pages_read", 4) == ("connector.counts", ("pages_read",), 4)
    words = ("bad_rows", "transactions_committed", "transactions_aborted", "records_lost", "held_back_ms", "odd_thing")
    for name in words:
        metric, labels, _ = counted(name, 1)
        assert len(METRICS[metric].labels) == 2 + len(labels) and METRICS[metric].kind is Kind.COUNTER


# The decision log.


def appended(chain, kind, number, pending=None, batch=0, committables=0, **more):
    output = TaskOutput(0, "a", committables=tuple(Versioned(1, b"") for _ in range(committables)))
    link = Link(
        number=number, kind=kind, base=number, id=str(number), batch=batch, pending=pending, outputs=(output,), **more
    )
    assert chain.create(link)


def test_decisions_are_counted_once_carried_out(tmp_path):
    chain = Chain(LocalStorage(), str(tmp_path / "decisions"))
    assert DecisionReader(Chain(chain.storage, chain.directory)).look() is None
    reader = DecisionReader(Chain(chain.storage, chain.directory))
    appended(chain, LinkKind.CLAIM, 0, batch=-1)
    counts = {"rows_written": 5, "bytes_written": 50}
    appended(chain, LinkKind.BATCH, 1, pending=1, committables=2, metrics=counts)
    news = reader.look()
    assert (news.commits, news.pending, news.rows) == (0, 2, 0)
    chain.mark_done(1)
    news = reader.look()
    assert (news.commits, news.pending, news.rows, news.size_bytes, news.published) == (1, 0, 5, 50, 2)
    assert reader.look().commits == 0


def test_a_decision_that_was_given_up_is_not_committed(tmp_path):
    chain = Chain(LocalStorage(), str(tmp_path / "decisions"))
    appended(chain, LinkKind.BATCH, 0, pending=0, committables=1)
    reader = DecisionReader(Chain(chain.storage, chain.directory))
    appended(chain, LinkKind.LOST, 1, batch=-1)
    appended(chain, LinkKind.BATCH, 2, pending=2, committables=1)
    chain.mark_done(2)
    news = reader.look()
    assert (news.commits, news.lost, news.published) == (1, 1, 1)


def test_what_was_deleted_before_a_look_is_left_out(tmp_path):
    chain = Chain(LocalStorage(), str(tmp_path / "decisions"))
    reader = DecisionReader(Chain(chain.storage, chain.directory))
    for number in range(3):
        appended(chain, LinkKind.BATCH, number, batch=number)
    Path(chain.directory, f"{0:020d}.json").unlink()
    assert reader.look().commits == 2


def test_the_sinks_of_a_batch_function_count_together(tmp_path):
    """Also one that writes for the first time after the metrics have begun."""

    def commit(sink, number):
        place = f"{tmp_path}/penstock/sinks/{sink}/penstock"
        Path(place).mkdir(parents=True, exist_ok=True)
        Path(place, "sink.json").touch()
        appended(Chain(LocalStorage(), f"{place}/decisions"), LinkKind.BATCH, number, batch=number, committables=2)

    log = _Log(str(tmp_path))
    commit("before", 0)
    news = log.look({})
    assert news.commits == 0, "what was there is not counted"
    commit("before", 1)
    commit("new", 0)
    news = log.look({})
    assert (news.commits, news.published, news.pending) == (2, 4, 0)
    assert log.look({}).commits == 0


# Counters of the driver's other processes.


def test_processes_of_the_driver_count_while_somebody_asks(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = new_counts_folder()
    add_driver_counts(folder, "id-1", {"transactions_aborted": 1})
    assert list(tmp_path.iterdir()) == [], "nobody asks"
    open_counts_folder(folder)
    assert Path(folder).stat().st_mode & 0o077 == 0
    for _ in range(2):
        add_driver_counts(folder, "id-1", {"transactions_aborted": 1, "retries": 2})
    add_driver_counts(folder, "id-2", {"retries": 1})
    assert read_driver_counts(folder) == {"id-1": {"transactions_aborted": 2, "retries": 4}, "id-2": {"retries": 1}}
    Path(folder, "id-2.json").write_text("{")
    assert read_driver_counts(folder)["id-2"] == {}
    remove_counts_folder(folder)
    add_driver_counts(folder, "id-1", {"retries": 1})
    assert read_driver_counts(folder) == {}


def test_the_driver_keeps_a_bounded_number_of_counters(monkeypatch):
    from penstock.spark import CountsParam

    monkeypatch.setattr("penstock.spark._metrics._MOST_COUNTERS", 4)
    value = {}
    for number in range(9):
        value = CountsParam().addInPlace(value, {"rows_read": 1, f"q{number}/rows_read": 1})
    assert CountsParam.totals(value) == {"rows_read": 9}
    assert CountsParam.by_query(value) == {f"q{number}": {"rows_read": 1} for number in (6, 7, 8)}


# The ways out.


def test_a_scrape_is_what_prometheus_reads(registry):
    odd = 'a"b\\c\nd'
    registry.begin("id-2", odd, "run-1")
    registry.add("id-2", "source.rows", 3, "0")
    server = MetricsServer(registry.samples)
    try:
        found = scraped(server)
        assert found["penstock_source_rows_total", frozenset({("query", odd), ("source", "0")})] == 3
        assert found["penstock_queries_started_total", frozenset()] == 2
        assert server.address == f"http://127.0.0.1:{server.port}/metrics"
    finally:
        server.stop()
        server.stop()
    with pytest.raises(OSError, match="refused"):
        scraped(server)


@pytest.mark.parametrize("name", ["bad_rows", "dead_letters", "rescued_rows"])
def test_rows_that_someone_should_look_at_are_scraped(registry, name):
    metric, labels, amount = counted(name, 3)
    registry.add("id-1", metric, amount, "sink", *labels)
    server = MetricsServer(registry.samples)
    try:
        assert scraped(server)[f"penstock_{name}_total", frozenset({("query", "copy"), ("part", "sink")})] == 3
    finally:
        server.stop()


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", None), ("192.0.2.1", 0), ("127.0.0.1", 70_000)])
def test_a_place_that_can_not_be_had_is_one_line(registry, host, port):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BadConfigurationError, match="choose another port") as caught:
            MetricsServer(registry.samples, host=host, port=taken.getsockname()[1] if port is None else port)
    assert "\n" not in str(caught.value) and f"{host}:" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:0", ("::1", 0)),
        *((text, None) for text in ("ninety", "127.0.0.1:", ":80", "70000", "127.0.0.1", "-1", "", "9" * 5000)),
    ],
)
def test_where_a_run_is_scraped(text, place):
    if place is None:
        with pytest.raises(BadConfigurationError, match=r"^--metrics .*: write a port, or HOST:PORT, such as 9464"):
            MetricsPlace.parse(text)
    else:
        assert MetricsPlace.parse(text) == MetricsPlace(*place)


@pytest.mark.parametrize(
    ("module", "begin", "extra"),
    [("prometheus_client", MetricsServer, "prometheus"), ("opentelemetry", observe, "opentelemetry")],
)
def test_a_missing_extra_is_named(monkeypatch, registry, module, begin, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BadConfigurationError, match=rf"pip install 'penstock\[{extra}\]'"):
        begin(registry.samples)


# A session, without Spark.


class Session:
    """What the listener needs of a classic session: its queries have checkpoints."""

    def __init__(self, checkpoint):
        query = SimpleNamespace(resolvedCheckpointRoot=lambda: str(checkpoint))
        self._query = SimpleNamespace(_jsq=SimpleNamespace(streamingQuery=lambda: query))
        self.streams = SimpleNamespace(
            active=[], addListener=lambda _: None, removeListener=lambda _: None, get=lambda _: self._query
        )

    def stop(self):
        pass


@pytest.fixture
def session(tmp_path):
    session = Session(tmp_path)
    metrics = SessionMetrics.of(session)
    assert SessionMetrics.of(session) is metrics
    metrics.serve("127.0.0.1", 0)
    yield metrics
    session.stop()
    assert list(metrics.samples()) == []
    with pytest.raises(KeyError):
        _attached[session]


def event(run, **more):
    given = {"id": "id-1", "runId": run, "name": "copy", "timestamp": "1970-01-01T00:02:00.000Z", "exception": None}
    return SimpleNamespace(**{**given, **more})


def batch(run):
    return SimpleNamespace(progress=SimpleNamespace(json=json.dumps(progress(runId=run))))


def chain_in(tmp_path):
    return Chain(LocalStorage(), str(tmp_path / "penstock" / "decisions"))


def settled(session):
    """The values, once the worker has looked at everything."""
    session._worker.submit(lambda: None).result(30)
    return values(session.samples())


def test_events_of_the_run_before_may_come_late(session, tmp_path):
    session.onQueryStarted(event("run-1"))
    appended(chain_in(tmp_path), LinkKind.BATCH, 0)
    session.onQueryStarted(event("run-2"))
    session.onQueryProgress(batch("run-1"))
    session.onQueryTerminated(event("run-1", exception="lost"))
    session.onQueryProgress(batch("run-2"))
    session.onQueryIdle(event("run-2"))
    found = settled(session)
    assert found["batches",] == 2 and found["source.rows", "0"] == 14 and found["sink.commits",] == 1
    assert found["query.running",] == 1 and found["queries.failed",] == 1
    assert found["query.last_sign.timestamp",] == 120
    session.onQueryStarted(event("run-3"))
    session.onQueryProgress(batch("run-1"))
    assert settled(session)["batches",] == 2, "only the last run before may have something to say"


def test_what_was_committed_before_is_not_counted(session, tmp_path):
    appended(chain_in(tmp_path), LinkKind.BATCH, 0)
    session.onQueryStarted(event("run-1"))
    appended(chain_in(tmp_path), LinkKind.BATCH, 1, batch=1)
    session.onQueryProgress(batch("run-1"))
    assert settled(session)["sink.commits",] == 1


def test_a_decision_log_that_can_not_be_read_is_said_once(session, tmp_path, monkeypatch, caplog):
    session.onQueryStarted(event("run-1"))
    appended(chain_in(tmp_path), LinkKind.BATCH, 0)
    with monkeypatch.context() as patch:
        patch.setattr(DecisionReader, "look", lambda self: (_ for _ in ()).throw(PermissionError("no rights")))
        for _ in range(3):
            session.onQueryProgress(batch("run-1"))
            assert settled(session)["sink.log.unreadable",] == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"metrics: the decisions of {tmp_path} can't be read: no rights"
    ]
    session.onQueryProgress(batch("run-1"))
    found = settled(session)
    assert (found["sink.log.unreadable",], found["sink.commits",], found["batches",]) == (0, 1, 4)


def test_a_storage_that_hangs_holds_up_neither_events_nor_scrapes(session, tmp_path, monkeypatch):
    session.onQueryStarted(event("run-1"))
    looks, go_on = [], threading.Event()

    def look(reader):
        looks.append(reader)
        assert go_on.wait(30)

    monkeypatch.setattr(DecisionReader, "look", look)
    for _ in range(5):
        session.onQueryProgress(batch("run-1"))
    until(lambda: looks)
    session.onQueryProgress(batch("run-1"))
    assert values(session.samples())["batches",] == 6
    go_on.set()
    settled(session)
    assert len(looks) <= 2


def test_a_scrape_asks_for_what_is_old(session, tmp_path, monkeypatch):
    session.onQueryStarted(event("run-1"))
    appended(chain_in(tmp_path), LinkKind.BATCH, 0, pending=0, committables=3)
    assert ("sink.pending.committables",) not in settled(session), "no event says so while a commit hangs"
    monkeypatch.setattr("penstock.spark._session_metrics._FRESH_S", -1)
    settled(session)
    assert settled(session)["sink.pending.committables",] == 3


# With Spark.


def otel(reader):
    """Name and attributes → value."""
    found = {}
    for resource in json.loads(reader.get_metrics_data().to_json())["resource_metrics"]:
        for scope in resource["scope_metrics"]:
            for metric in scope["metrics"]:
                for point in metric["data"]["data_points"]:
                    found[metric["name"], frozenset(point["attributes"].items())] = point["value"]
    return found


@pytest.fixture
def metrics(spark):
    """A server for the test's queries. The session has other tests' queries as well."""
    server = penstock.serve_metrics(spark, port=0)
    yield server
    server.stop()
    SessionMetrics.of(spark).close()


class Seen:
    """The series of one query in a scrape."""

    def __init__(self, server, name):
        self._all = scraped(server)
        self._name = name

    def __call__(self, metric, **labels):
        return self._all.get((f"penstock_{metric}", frozenset({"query": self._name, **labels}.items())))


@pytest.fixture
def query_of(spark, tmp_path):
    pytest.importorskip("penstock_filesystem")

    def start(*texts, trigger=None, **options):
        (tmp_path / "in").mkdir(exist_ok=True)
        for number, text in enumerate(texts):
            (tmp_path / f"in/{number}.csv").write_text(text)
        rows = spark.readStream.format("penstock.filesystem").schema("id long").option("format", "csv")
        rows = rows.options(header=True, badRecords="drop", maxFilesPerTrigger=1).load(str(tmp_path / "in"))
        writer = rows.writeStream.format("penstock.filesystem").options(**options)
        writer = writer.option("checkpointLocation", str(tmp_path / "ck")).queryName(f"query {tmp_path.name}")
        return writer.trigger(**(trigger or {"availableNow": True})).start(str(tmp_path / "out"))

    return start


@pytest.mark.spark
def test_a_stream_of_files_is_seen_both_ways(spark, metrics, query_of, tmp_path):
    reader = InMemoryMetricReader()
    penstock.export_metrics(spark, MeterProvider([reader]))
    query = query_of("id\n1\nx\n", "id\n2\n3\n", "id\n4\n5\ny\n")
    query.awaitTermination()
    until(lambda: (seen := Seen(metrics, query.name))("query_running") == 0 and seen("sink_pending_parts") == 0)
    until(lambda: (seen := Seen(metrics, query.name))("sink_commits_total") == seen("batches_total") == 3)
    seen, batches = Seen(metrics, query.name), query.recentProgress
    assert len(batches) == 3 == seen("batches_total")
    assert seen("source_rows_total", source="0") == sum(one.numInputRows for one in batches) == 5
    assert seen("batch_time_seconds_total") == pytest.approx(sum(one.batchDuration for one in batches) / 1000)
    adding = sum(one.durationMs["addBatch"] for one in batches) / 1000
    assert seen("batch_phase_time_seconds_total", phase="addBatch") == pytest.approx(adding)
    waiting = json.loads(batches[-1].sources[0].latestOffset)["backlog"]
    assert seen("source_lag_files", source="0") == waiting["files"] == 0
    assert seen("source_tracked", source="0", what="files") == waiting["tracked_files"] == 3
    assert seen("bad_rows_total", part="penstock.filesystem") == 2
    assert seen("read_rows_total", part="penstock.filesystem") == 5
    read = sum(path.stat().st_size for path in (tmp_path / "in").iterdir())
    assert seen("read_bytes_total", part="penstock.filesystem") == read
    assert seen("sink_committed_rows_total") == 5
    assert seen("sink_committed_bytes_total") == seen("written_bytes_total", part="penstock.filesystem") > 0
    files = len(list((tmp_path / "out").rglob("*.parquet")))
    assert seen("sink_published_total") == files > 0
    assert (seen("sink_pending_committables"), seen("sink_pending_parts")) == (0, 0)
    assert seen("query_info", id=str(query.id), run=str(query.runId)) == 1
    # The same by the other way.
    translated = {
        (metric.prometheus_name, attributes): value
        for (name, attributes), value in otel(reader).items()
        for metric in METRICS.values()
        if metric.otel_name == name and ("query", query.name) in attributes
    }
    assert translated == {key: value for key, value in scraped(metrics).items() if ("query", query.name) in key[1]}
    assert len(translated) > 25


@pytest.mark.spark
def test_what_waits_is_what_the_progress_says(metrics, query_of):
    query = query_of(*(f"id\n{number}\n" for number in range(3)), trigger={"processingTime": "1 hour"})
    try:
        until(lambda: (seen := Seen(metrics, query.name))("sink_commits_total") == seen("batches_total") == 1)
        seen, batch = Seen(metrics, query.name), query.lastProgress
        waiting = json.loads(batch.sources[0].latestOffset)["backlog"]
        assert seen("source_lag_files", source="0") == waiting["files"] > 0
        assert seen("source_lag_bytes", source="0") == waiting["bytes"] > 0
        assert seen("query_running") == seen("sink_pending_parts") == 1
        assert seen("sink_published_total") == 0
        began = datetime.fromisoformat(batch.timestamp.replace("Z", "+00:00")).timestamp()
        assert seen("query_last_sign_timestamp_seconds") == pytest.approx(began + batch.batchDuration / 1000)
    finally:
        query.stop()


@pytest.mark.spark
def test_a_run_after_the_first_goes_on_and_a_failure_is_counted(spark, metrics, query_of, tmp_path):
    query = query_of("id\n1\n", rollOnCheckpoint=True)
    query.awaitTermination()
    (tmp_path / "in/9.csv").write_text("id\n7\n8\n")
    query = query_of(rollOnCheckpoint=True)
    query.awaitTermination()
    until(lambda: (seen := Seen(metrics, query.name))("sink_commits_total") == seen("batches_total") == 2)
    until(lambda: Seen(metrics, query.name)("query_running") == 0)
    seen = Seen(metrics, query.name)
    assert seen("source_rows_total", source="0") == seen("sink_committed_rows_total") == 3
    before = scraped(metrics)["penstock_queries_failed_total", frozenset()]
    (tmp_path / "in/10.csv").write_text("id\n9\n")
    broken = query_of(bucketAssigner="nothing")
    with pytest.raises(Exception, match="bucketAssigner"):
        broken.awaitTermination()
    until(lambda: scraped(metrics)["penstock_queries_failed_total", frozenset()] == before + 1)


@pytest.mark.spark
def test_of_sparks_own_sink_there_is_no_decision_log(spark, metrics, tmp_path):
    rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    writer = rows.writeStream.format("noop").queryName("noop").option("checkpointLocation", str(tmp_path / "ck"))
    query = writer.trigger(processingTime="200 milliseconds").start()
    try:
        until(lambda: (Seen(metrics, "noop")("source_rows_total", source="0") or 0) > 0)
    finally:
        query.stop()
    assert not [key for key in scraped(metrics) if key[0].startswith("penstock_sink") and ("query", "noop") in key[1]]
