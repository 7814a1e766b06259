"""Sinks of a batch function that are committed together, on real files and without Spark."""

from __future__ import annotations

import contextlib
import json
import pickle
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from typer.testing import CliRunner

import penstock
from penstock._commit import LinkKind, Publishing
from penstock.checkpoint import Prepared, finish, open_stored_query
from penstock.cli._app import app
from penstock.errors import BadConfigurationError, FatalError, RetriableError
from penstock.serialization import JsonSerializer
from penstock.sink import Committer, Found, Member, SinkContext, SupportsWriteTimestamps, as_one, owned
from penstock.sink._union import Owned
from penstock.spark import _sink_group
from penstock.spark._data_source import data_source_of
from penstock.spark._driver_counts import open_counts_folder, read_driver_counts
from penstock.spark._known_query import _known
from penstock.testing.simulation._pieces import PieceSink
from penstock_filesystem.sink.staging._rename import RenameCommitter

SCHEMA = pa.schema([("id", pa.int64())])
runner = CliRunner()


class Frame:
    """Rows as a DataFrame whose writer runs in this process: the data source, one task, the commit."""

    def __init__(self, ids, *, fails=False):
        self._ids, self._fails = ids, fails
        self._options, self._format = {}, ""
        self.sparkSession = SimpleNamespace(conf=SimpleNamespace(get=lambda name, default: default))

    @property
    def write(self):
        return self

    def mode(self, mode):
        assert mode == "append"
        return self

    def format(self, name):
        self._format = name
        return self

    def options(self, **given):
        self._options |= given
        return self

    def save(self):
        source = data_source_of(self._format.removeprefix("penstock."), parallelism=1, accumulator=None)
        writer = pickle.loads(pickle.dumps(source(self._options).writer(from_arrow_schema(SCHEMA), False)))
        message = writer.write(iter([pa.record_batch([pa.array(self._ids, pa.int64())], schema=SCHEMA)]))
        if self._fails:
            writer.abort([message])
            raise RuntimeError("a task has failed")
        writer.commit([message])


ID = "0b9cb4f4-3aa3-4f0c-9d4c-5f2c9e6f3a11"


class Query:
    """A query that runs batch after batch. ``restart`` makes a new process and a new run."""

    def __init__(self, root, names=("first", "second")):
        self.root = root
        self.checkpoint = root / "ck"
        self.create(ID)
        self.restart(names)

    def create(self, query_id):
        for directory in ("offsets", "commits"):
            (self.checkpoint / directory).mkdir(parents=True)
        (self.checkpoint / "metadata").write_text(json.dumps({"id": query_id}))

    def restart(self, names=("first", "second")):
        _known.clear()
        self.run = f"run {id(object())} {len(list(self.root.iterdir()))} {self.root.stat().st_mtime_ns}"
        files = {"format": "json", "bucketAssigner": "basePath"}
        sinks = {name: ("penstock.filesystem", {"path": f"{self.root}/{name}", **files}) for name in names}
        self.group = penstock.SinkGroup("all", checkpoint=str(self.checkpoint), sinks=sinks)

    def batch(self, number, **rows):
        """Spark plans the batch, and calls the function; each of its writes takes a list of ids."""
        self.plan(number)
        with self.group.batch(Frame([]), number) as batch:
            for name, ids in rows.items():
                batch.write(name, ids if isinstance(ids, Frame) else Frame(ids))
            self.seen_inside = {name: self.visible(name) for name in rows}

    def plan(self, number):
        (self.checkpoint / f"offsets/{number}").write_text(f"v1\n{{}}\n{number}")

    def done(self, number):
        (self.checkpoint / f"commits/{number}").write_text("v1\n{}")

    def visible(self, name):
        paths = (path for path in (self.root / name).glob("*.json"))
        return sorted(json.loads(line)["id"] for path in paths for line in path.read_text().splitlines())

    def hidden(self, name):
        return [path for path in (self.root / name / ".penstock").rglob("*") if path.is_file()]

    @property
    def links(self):
        return open_stored_query(str(self.checkpoint), sink_name="all").chain.links()


@pytest.fixture
def query(tmp_path, monkeypatch):
    made = Query(tmp_path)
    monkeypatch.setattr(_sink_group, "classic_context", lambda spark: None)
    monkeypatch.setattr(_sink_group, "run_of", lambda context: ("", made.run))
    return made


def test_one_link_decides_for_all(query):
    query.batch(0, first=[1, 2], second=[3])
    assert query.seen_inside == {"first": [], "second": []}
    assert (query.visible("first"), query.visible("second")) == ([1, 2], [3])
    (link,) = (link for link in query.links if link.kind is LinkKind.BATCH)
    assert len(link.outputs) >= 2 and link.metrics["rows_written"] == 3
    query.done(0)
    query.batch(1, second=[4])  # a sink may be left out
    assert (query.visible("first"), query.visible("second")) == ([1, 2], [3, 4])
    assert sum(link.kind is LinkKind.CLAIM for link in query.links) == 1, "a run claims once"


def test_sinks_are_published_in_their_order_whichever_is_written_first(query):
    query.batch(0, second=[2], first=[1])
    (link,) = (link for link in query.links if link.kind is LinkKind.BATCH)
    forms = [json.loads(one.data)["member"] for output in link.outputs for one in output.committables]
    assert forms == ["first", "second"]


def test_nothing_is_visible_if_the_block_fails(query):
    with pytest.raises(RuntimeError, match="a task has failed"):
        query.batch(0, first=[1], second=Frame([2], fails=True))
    assert query.visible("first") == query.visible("second") == []
    query.restart()
    query.batch(0, first=[1], second=[2])
    assert (query.visible("first"), query.visible("second")) == ([1], [2])
    query.done(0)
    query.batch(1, first=[3], second=[4])
    left = [path.suffix for name in ("first", "second") for path in query.hidden(name)]
    assert left == [".witness"] * 2, "those of the last batch"


def publish_first_only(monkeypatch):
    """The driver ends when the first sink has its rows, and the second has not."""
    real = Publishing._are_published

    def are_published(self, committer, committables):
        answer = real(self, committer, committables[:1])
        raise SystemExit(answer)

    return monkeypatch.setattr(Publishing, "_are_published", are_published)


@pytest.fixture
def half_published(query, monkeypatch):
    with monkeypatch.context() as patch:
        publish_first_only(patch)
        with pytest.raises(SystemExit):
            query.batch(0, first=[1], second=[2])
    assert (query.visible("first"), query.visible("second")) == ([1], [])
    return query


def test_the_next_start_publishes_the_rest(half_published):
    query = half_published
    query.restart()
    query.batch(0, first=[1], second=[2])  # which is skipped
    query.done(0)
    query.batch(1, first=[3], second=[4])
    assert (query.visible("first"), query.visible("second")) == ([1, 3], [2, 4])


def test_a_sink_that_was_taken_out_of_the_group_gets_what_was_decided(half_published):
    query = half_published
    query.restart(["first"])
    query.batch(0, first=[1])
    assert (query.visible("first"), query.visible("second")) == ([1], [2])


def test_a_sink_that_goes_elsewhere_while_rows_are_open_is_refused(half_published):
    query = half_published
    query.restart()
    query.group.sinks["second"][1]["path"] = f"{query.root}/third"
    query.plan(0)
    said = r"wrote to .*/second \(second\) before .* to .*/third, while rows .*: run penstock finish --take-over .*/ck"
    with pytest.raises(BadConfigurationError, match=said), query.group.batch(Frame([]), 0):
        pass
    assert runner.invoke(app, ["finish", str(query.checkpoint), "--take-over"]).exit_code == 0
    with query.group.batch(Frame([]), 0):
        pass
    query.done(0)
    query.plan(1)
    with query.group.batch(Frame([]), 1) as batch:
        batch.write("second", Frame([3]))
    assert (query.visible("second"), query.visible("third")) == ([2], [3])


def test_a_sink_of_another_connector_under_the_same_name_ends_what_was_begun(half_published, monkeypatch):
    """The name says which sink it is; its connector may be another one after a restart."""
    query = half_published
    query.restart()
    query.group.sinks["second"][1]["path"] = f"{query.root}/third"
    files = _sink_group.find_connector("filesystem")
    with monkeypatch.context() as patch:
        patch.setattr(_sink_group, "find_connector", lambda _: SimpleNamespace(name="another", load=files.load))
        query.batch(0)
    assert (query.visible("second"), query.visible("third")) == ([2], [])
    query.done(0)
    query.batch(1, second=[3])
    assert (query.visible("second"), query.visible("third")) == ([2], [3])


def test_what_is_open_of_a_sink_that_can_not_be_made_any_more_is_not_left_behind(half_published, monkeypatch):
    query = half_published
    query.restart()
    files = _sink_group.find_connector("filesystem")
    monkeypatch.setattr(_sink_group, "find_connector", lambda _: SimpleNamespace(name="another", load=files.load))
    (stored,) = query.checkpoint.rglob("second/penstock/sink.json")
    text = stored.read_text()
    stored.write_text(text.replace('"json"', '"nonsense"'))
    said = (
        "written to 'second' is not published yet, and the query has no such sink any more: .* --take-over .*/ck first"
    )
    with pytest.raises(BadConfigurationError, match=said):
        query.batch(0)
    stored.write_text(text)
    assert sum(link.kind is LinkKind.CLAIM for link in query.links) == 1, "nothing is claimed"
    query.batch(0)
    assert query.visible("second") == [2]


def test_a_person_publishes_the_rest(half_published):
    query, checkpoint = half_published, str(half_published.checkpoint)
    shown = " ".join(runner.invoke(app, ["inspect", checkpoint]).stdout.split())
    assert "all, group of first, second" in shown and "publishes second: " in shown
    view = json.loads(runner.invoke(app, ["inspect", checkpoint, "--json"]).stdout)
    assert [one["sink"] for one in view["sinks"]] == ["group of first, second"]
    assert runner.invoke(app, ["finish", checkpoint]).exit_code == 4
    with pytest.raises(BadConfigurationError, match=r"say whose it is, such as first\.retryTimeout"):
        finish(checkpoint, {"retryTimeout": "1s"}, sink="all")
    given = ["-o", "second.retryTimeout=1s"]
    assert runner.invoke(app, ["finish", checkpoint, "--take-over", "--sink", "all", *given]).exit_code == 0
    assert (query.visible("first"), query.visible("second")) == ([1], [2])


@pytest.mark.parametrize("is_known", [True, False])
def test_a_checkpoint_that_was_deleted_is_another_querys(query, monkeypatch, is_known):
    """As in a notebook: the checkpoint is removed, and the same process starts the query again."""
    query.batch(0, first=[1], second=[2])
    shutil.rmtree(query.checkpoint)
    other = "6e1d4b9a-52f0-4d3c-8f0e-0d8a44a3c1b7"
    query.create(other)
    monkeypatch.setattr(_sink_group, "run_of", lambda context: (other if is_known else "", "next run"))
    query.batch(0, first=[3], second=[4])
    assert (query.visible("first"), query.visible("second")) == ([1, 3], [2, 4])
    assert len({path.parents[1].name for path in query.hidden("first")}) == 2, "each query has names of its own"


def test_what_is_counted_in_committing_reaches_the_metrics(query, monkeypatch, tmp_path):
    folder = str(tmp_path / "counts")
    open_counts_folder(folder)
    monkeypatch.setattr(_sink_group, "counts_folder", lambda context: folder)
    real = RenameCommitter.publish

    def publish(self, committables):
        self._metrics.add("retries")
        return real(self, committables)

    monkeypatch.setattr(RenameCommitter, "publish", publish)
    query.batch(0, first=[1], second=[2])
    (counts,) = read_driver_counts(folder).values()
    assert counts["retries"] == 2


def test_what_a_newer_version_has_prepared_is_not_read(query, monkeypatch):
    real = Prepared.put

    def put(self, plan_id, member, outputs, metrics):
        real(self, plan_id, member, outputs, metrics)
        path = self._path(plan_id, member)
        self._storage.put(path, self._storage.read(path).replace(b'"format": 1', b'"format": 99'))

    monkeypatch.setattr(Prepared, "put", put)
    with pytest.raises(FatalError, match="was written by a newer penstock"):
        query.batch(0, first=[1])
    assert query.visible("first") == []


def test_what_another_run_has_removed_is_not_decided(query):
    """A zombie comes to the end of its block when another driver has begun."""

    def sleep_in_the_block():
        query.plan(0)
        with query.group.batch(Frame([]), 0) as late:
            late.write("first", Frame([1]))
            query.restart()
            query.batch(0, first=[1], second=[2])

    with pytest.raises(RetriableError, match="another run of the query has begun"):
        sleep_in_the_block()
    assert (query.visible("first"), query.visible("second")) == ([1], [2])


def test_a_batch_is_written_once_in_a_run(query):
    query.batch(0, first=[1])
    with pytest.raises(BadConfigurationError, match="has been written to this sink already"):
        query.batch(0, second=[2])
    query.done(0)

    def write_twice():
        query.plan(1)
        with query.group.batch(Frame([]), 1) as batch:
            batch.write("first", Frame([3]))
            batch.write("first", Frame([4]))

    with pytest.raises(BadConfigurationError, match="'first' has been written to in this batch already"):
        write_twice()
    assert query.visible("first") == [1] and query.visible("second") == []
    with pytest.raises(BadConfigurationError, match="has no sink 'third', only first, second"):
        query.batch(1, third=[1])


def test_a_write_after_its_block_is_refused(query):
    """Its rows would stay hidden, and nothing would ever decide them."""
    query.plan(0)
    with query.group.batch(Frame([]), 0) as batch:
        batch.write("first", Frame([1]))
    with pytest.raises(BadConfigurationError, match="'second' is written to after the block of its batch has ended"):
        batch.write("second", Frame([2]))
    assert query.visible("first") == [1]


class Slow(Frame):
    """A write in a thread, which runs while the block ends."""

    def __init__(self, ids):
        super().__init__(ids)
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def save(self):
        self.has_begun.set()
        assert self.may_end.wait(60)
        super().save()


def test_a_block_does_not_end_before_its_writes(query):
    slow = Slow([1])
    query.plan(0)

    def end_early():
        with query.group.batch(Frame([]), 0) as batch:
            thread = threading.Thread(target=batch.write, args=("first", slow))
            thread.start()
            slow.has_begun.wait(60)
            with pytest.raises(BadConfigurationError, match="'first' has been written to"):
                batch.write("first", Frame([3]))
            batch.write("second", Frame([2]))
        return thread

    try:
        with pytest.raises(BadConfigurationError, match="ends while 'first' is still being written to"):
            end_early()
    finally:
        slow.may_end.set()
    assert query.visible("first") == query.visible("second") == []


def test_writes_in_threads_of_the_block(query):
    query.plan(0)
    with query.group.batch(Frame([]), 0) as batch, ThreadPoolExecutor() as pool:
        list(pool.map(batch.write, ("second", "first"), (Frame([2]), Frame([1]))))
    assert (query.visible("first"), query.visible("second")) == ([1], [2])


@pytest.mark.parametrize("is_repeated", [False, True])
def test_a_write_whose_error_is_caught_is_repeated_or_nothing_is_decided(query, is_repeated):
    """A thread ends with its error, and the block does not see it."""

    def write():
        query.plan(0)
        with query.group.batch(Frame([]), 0) as batch:
            with contextlib.suppress(RuntimeError):
                batch.write("first", Frame([1], fails=True))
            batch.write("second", Frame([2]))
            if is_repeated:
                batch.write("first", Frame([3]))

    if is_repeated:
        write()
    else:
        with pytest.raises(RetriableError, match="the write to 'first' has failed and was not repeated"):
            write()
    assert (query.visible("first"), query.visible("second")) == (([3], [2]) if is_repeated else ([], []))


def test_a_block_in_a_block_of_the_same_batch_is_refused(query):
    def nest():
        query.plan(0)
        with query.group.batch(Frame([]), 0) as outer:
            outer.write("first", Frame([1]))
            with query.group.batch(Frame([]), 0) as inner:
                inner.write("second", Frame([2]))

    with pytest.raises(BadConfigurationError, match="'all' is in a block of batch 0 already"):
        nest()
    assert query.visible("first") == query.visible("second") == []
    query.batch(0, first=[1], second=[2])
    assert (query.visible("first"), query.visible("second")) == ([1], [2])


@pytest.mark.parametrize("is_group_first", [True, False])
def test_a_sink_of_a_groups_name_is_refused(query, is_group_first):
    """What one of them has decided, the other would take for its own, and skip."""

    def write_one(number):
        options = {"checkpointLocation": str(query.checkpoint), "batchId": str(number), "sinkName": "all"}
        one = Frame([7]).format("penstock.filesystem")
        one.options(**options, path=f"{query.root}/first", format="json", bucketAssigner="basePath").save()

    def write_group(number):
        query.batch(number, first=[1], second=[2])

    query.plan(0)
    before, after = (write_group, write_one) if is_group_first else (write_one, write_group)
    before(0)
    seen = query.visible("first")
    for number in (0, 1):
        query.restart()
        with pytest.raises(BadConfigurationError, match=r"the name 'all' is that of a (group|sink) of this"):
            after(number)
        query.done(0)
        query.plan(1)
    assert query.visible("first") == seen


@pytest.mark.parametrize(
    ("name", "sinks", "said"),
    [
        ("no name", {"a": ("penstock.filesystem", {})}, "'no name' is no name"),
        ("all", {"a/b": ("penstock.filesystem", {})}, "'a/b' is no name"),
        ("all", {}, "a group needs a sink"),
        ("all", {"a": ("parquet", {})}, "has the format parquet"),
    ],
)
def test_groups_that_can_not_be(name, sinks, said):
    with pytest.raises(BadConfigurationError, match=said):
        penstock.SinkGroup(name, checkpoint="/ck", sinks=sinks)


def test_options_are_checked_before_anything_is_written(query):
    sinks = {"a": ("penstock.filesystem", {"path": str(query.checkpoint / "x"), "formt": "json"})}
    query.group = penstock.SinkGroup("all", checkpoint=str(query.checkpoint), sinks=sinks)
    with pytest.raises(BadConfigurationError, match="formt"):
        query.batch(0)
    assert not (query.checkpoint / "penstock").exists()


def test_a_group_is_sent_to_other_processes(query):
    sent = pickle.loads(pickle.dumps(query.group))
    assert (sent.name, sent.checkpoint, sent.sinks) == (query.group.name, query.group.checkpoint, query.group.sinks)


# --- the sink that stands for all -------------------------------------------------------------------------------------


class Stamped(PieceSink, SupportsWriteTimestamps):
    """Wants a timestamp for each write."""


def test_stored_forms_name_the_member():
    union = as_one([Member("a", PieceSink(), SCHEMA)])
    piece = PieceSink().committable_serializer.unpack(
        JsonSerializer(1, lambda value: value, lambda _, value: value).pack({"name": "p", "base": 3})
    )
    stored = union.committable_serializer.pack(Owned("a", piece))
    assert stored == owned("a", PieceSink().committable_serializer.pack(piece))
    assert union.committable_serializer.unpack(stored) == Owned("a", piece)
    assert union.describe_committable(Owned("a", piece)) == "a: p" == union.describe_state(Owned("a", piece))
    with pytest.raises(FatalError, match="'a', and there is no such sink in the group any more"):
        as_one([]).committable_serializer.unpack(stored)


class Published(PieceSink):
    """Everything of it is committed."""

    def create_committer(self, context):
        return _Fixed([Found.COMMITTED], [Found.COMMITTED])


class Dying(PieceSink):
    """What it has left ends soon: it calls that lost, and publishes it with the outcome ``then``."""

    then = Found.COMMITTED

    def create_committer(self, context):
        return _Fixed([Found.LOST], [self.then])


class Gone(Dying):
    """What it has left has ended."""

    then = Found.LOST


class _Fixed(Committer):
    def __init__(self, looked_at, published):
        self._looked_at, self._published = looked_at, published

    def look(self, committables):
        return self._looked_at * len(committables)

    def publish(self, committables):
        return self._published * len(committables)

    def seal(self, committables):
        raise AssertionError("nothing is given up")

    def discard(self, committables, states):
        raise AssertionError("nothing is given up")


@pytest.mark.parametrize(("sink", "last"), [(Dying, Found.COMMITTED), (Gone, Found.LOST)])
def test_what_ends_soon_is_published_if_another_member_is(sink, last):
    """It was called lost, and the query stopped for good, while it could still be published."""
    union = as_one([Member("a", Published(), SCHEMA), Member("b", sink(), SCHEMA)])
    committer = union.create_committer(SinkContext("q", SCHEMA))
    both = [Owned("a", "one"), Owned("b", "two")]
    assert committer.look(both) == [Found.COMMITTED, Found.OPEN]
    assert committer.look(both[1:]) == [Found.LOST]
    assert committer.publish(both[1:]) == [last]
    # What was tried and is lost stays so: the query says which.
    assert committer.look(both)[1] is (Found.LOST if last is Found.LOST else Found.OPEN)


def test_the_first_rows_of_a_member_are_stamped(query):
    """Nothing is known of it before, and rows of 1970 would be hidden by any that are there."""

    def stamp(number):
        query.plan(number)
        with query.group.batch(Frame([]), number) as batch:
            for name in query.group.sinks:
                batch.write(name, Frame([number]))
        query.done(number)
        return batch.plan.planned.write_timestamp_us

    assert stamp(0) > 1_600_000_000_000_000
    assert stamp(1) == 0, "files need none"
    query.restart(("first", "second", "new"))
    assert stamp(2) > 1_600_000_000_000_000
    assert stamp(3) == 0


def test_rows_are_stamped_if_a_member_needs_it():
    plain, stamped = Member("a", PieceSink(), SCHEMA), Member("b", Stamped(), SCHEMA)
    assert not isinstance(as_one([plain]), SupportsWriteTimestamps)
    assert isinstance(as_one([plain, stamped]), SupportsWriteTimestamps)
