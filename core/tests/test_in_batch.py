"""Writes inside the function of ``foreachBatch``: the protocol, the named sinks of a checkpoint, the options."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import penstock
from penstock._commit import Batch, Chain, DisplacedError, RunMemory, TwoPhaseCommit
from penstock.checkpoint import (
    BatchInFunction,
    SparkLog,
    adopt,
    finish,
    named_sinks,
    open_stored_queries,
    open_stored_query,
    restore_offsets,
    take_over,
)
from penstock.cli._app import app
from penstock.cli._check import check_pipeline
from penstock.cli._run_layout import check_layout
from penstock.errors import BadConfigurationError, FatalError
from penstock.retry import NO_RETRIES
from penstock.sink import SinkContext, WriterContext
from penstock.spark._foreach_batch import _WRITE, RunningBatch, _warned, as_attempt, run_of_attempt
from penstock.spark._query_driver import QueryDriver
from penstock.storage import LocalStorage

SCHEMA = pa.schema([("id", pa.int64())])
runner = CliRunner()


@pytest.fixture
def written(new_query, tmp_path):
    """A query whose batch function writes; a session with as many processes as one likes."""
    Query = type(new_query())

    class Written(Query):
        run_of_engine, session = "run 1", "session"

        @property
        def protocol(self):
            chain = Chain(self.storage, self.chain.directory)
            context = SinkContext("q", SCHEMA)
            return TwoPhaseCommit(self.sink, context, chain, self.memory, session=self.session, in_batch=True)

        def planned(self, expected):
            return replace(super().planned(expected), engine_run=self.run_of_engine)

    return lambda **also: Written(tmp_path, **also)


def test_all_is_visible_when_a_write_returns(written):
    query = written()
    query.run(0, [[1], [2, 3]])  # the second is one that LedgerSink would carry
    assert query.visible() == [1, 2, 3] and query.hidden() == [] and not query.chain.head().link.states


def test_a_function_may_leave_batches_out(written):
    query = written()
    query.run(0, [[1]])
    query.run(7, [[2]])
    assert query.visible() == [1, 2]
    with pytest.raises(FatalError, match="were deleted or put back"):
        query.plan(3)


@pytest.mark.parametrize("numbers", [range(6), range(0, 18, 3)])
@pytest.mark.parametrize("processes", [1, 2])
def test_generations_do_not_grow_with_the_batches(written, numbers, processes):
    """Names at the target, such as transactional ids, hold the generation. Processes of a session take turns."""
    query = written()
    memories = [RunMemory() for _ in range(processes)]
    for turn, number in enumerate(numbers):
        query.memory = memories[turn % processes]
        query.run(number, [[number]])
    assert query.visible() == list(numbers) and query.chain.head().link.generation == 0


def test_a_write_that_failed_leaves_its_generation_behind(written):
    """Tasks of it may still run: the next write has other names. Also where the abort did not come to the log."""
    query = written()
    query.run(0, [[0]])
    query.plan(1)
    query.run(2, [[2]])
    assert query.visible() == [0, 2] and query.chain.head().link.generation > 0


def test_another_run_is_noticed_where_a_function_leaves_batches_out(written):
    query = written()
    query.run(0, [[0]])
    other = again_in_another_process(written(engine=query.engine))
    other.session, other.run_of_engine = "another", "run 2"
    other.run(1, [[1]])
    query.engine = other.engine
    with pytest.raises(DisplacedError):
        query.plan(3)


def test_offsets_that_were_replaced_are_noticed_where_a_function_leaves_batches_out(written):
    query = written()
    query.run(0, [[0]])
    query.run(1, [[1]])
    again = written(engine={0: query.engine[0], 1: b"v1 another"})
    again.run_of_engine = "run 2"
    with pytest.raises(FatalError, match="batch 1 was decided with other offsets"):
        again.plan(2)


def test_a_batch_that_is_run_again_is_skipped(written):
    query = written()
    query.run(0, [[1]])
    again = written(engine=query.engine)
    again.run_of_engine = "run 2"
    again.run(0, [[1], [2]])
    assert query.visible() == [1]
    again.run(1, [[3]])
    assert query.visible() == [1, 3]


@pytest.mark.parametrize("is_replayed", [False, True])
def test_a_second_write_of_a_batch_is_refused(written, is_replayed):
    """Also where the first one of this run was skipped, which a run before had made."""
    query = written()
    query.run(0, [[1]])
    if is_replayed:
        query = written(engine=query.engine)
        query.run_of_engine = "run 2"
        query.run(0, [[1]])
    for _ in range(2):
        with pytest.raises(BadConfigurationError, match="batch 0 has been written to this sink already"):
            query.run(0, [[2]])
        again_in_another_process(query)
    query.run(1, [[3]])
    assert query.visible() == [1, 3]


def test_a_run_that_is_not_known_leaves_the_record_alone(written):
    """Spark's properties of a thread are not those of threads that the function starts."""
    query = written()
    query.run(0, [[1]])
    query.run_of_engine = ""
    query.run(0, [[1]])
    assert query.chain.head().link.engine_run == "run 1" and query.visible() == [1]


def again_in_another_process(query):
    query.memory = RunMemory()
    return query


def test_a_write_that_failed_while_it_published_may_be_repeated_in_its_run(written, crash_type):
    """The user's function may catch the error and try again."""
    query = written()
    real = query.fuse.step

    def step(what):
        real(what)
        if what == "before publish":
            raise OSError("the store is away")

    query.fuse.step = step
    with pytest.raises(OSError):
        query.run(0, [[1]])
    query.fuse.step = real
    assert query.visible() == []
    query.run(0, [[1]])
    assert query.visible() == [1]


def test_processes_of_one_session_take_turns(written):
    """Batch 1 is planned by another process, and fails; the one that had planned batch 0 plans it again."""
    first = written()
    first.run(0, [[1]])
    second = again_in_another_process(written(engine=first.engine))
    second.plan(1)
    first.engine = second.engine
    first.run(1, [[2]])
    assert first.visible() == [1, 2]
    stranger = again_in_another_process(written(engine=first.engine))
    stranger.session = "another"
    stranger.plan(2)
    first.engine = stranger.engine
    with pytest.raises(DisplacedError):
        first.plan(2)


# --- the batch that Spark runs ----------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path):
    """A query that runs batch 1, and whose function has written batch 0 to two directories."""
    root = tmp_path / "ck"
    for directory in ("offsets", "commits"):
        (root / directory).mkdir(parents=True)
    (root / "metadata").write_text('{"id":"0b9cb4f4-3aa3-4f0c-9d4c-5f2c9e6f3a11"}')
    (root / "offsets/0").write_text("v1\n{}\n1")
    for name in ("files", "more"):
        write(root, name, 0, [0, 1])
    (root / "commits/0").write_text("v1\n{}")
    (root / "offsets/1").write_text("v1\n{}\n2")
    return root


def driver_of(root, name, number, run="run", query=""):
    connector = penstock._plugins.find_connector("filesystem").load()
    options = connector.sink_options.parse({"path": f"{root.parent}/{name}", "format": "json"}, owner="test")
    sink = connector.create_sink(options, SCHEMA)
    batch = RunningBatch(str(root), number, name, query, run)
    return QueryDriver(sink, SCHEMA, "filesystem", options, str(root), "session", NO_RETRIES, batch)


def write(root, name, number, ids, run="run", query=""):
    driver = driver_of(root, name, number, run, query)
    results = results_of(driver, number, ids)
    return driver.protocol(results).commit(number, results)


def results_of(driver, number, ids):
    plan = driver.plan()
    context = WriterContext(plan.planned.query_id, SCHEMA, batch_id=number, attempt_id=os.urandom(16).hex())
    return [penstock._commit.run_task(driver.sink, plan, context, [pa.record_batch([pa.array(ids)], SCHEMA)])]


def visible(root, name):
    files = (path for path in (root.parent / name).rglob("*") if path.is_file() and ".penstock" not in path.parts)
    return sorted(json.loads(line)["id"] for path in files for line in path.read_text().splitlines())


def leave_pending(root, name, ids, monkeypatch):
    """Batch 1 is decided, and its driver is gone."""
    driver = driver_of(root, name, 1)
    results = results_of(driver, 1, ids)
    with monkeypatch.context() as patch:
        patch.setattr("penstock._commit._two_phase.Publishing.carry_out", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            driver.protocol(results).commit(1, results)


def test_each_sink_has_a_log_and_names_of_its_own(checkpoint):
    assert named_sinks(LocalStorage(), str(checkpoint)) == ["files", "more"]
    files, more = open_stored_queries(str(checkpoint))
    assert (files.sink_name, files.chain.head().link.batch) == ("files", 0)
    assert {files.names, more.names} == {f"0b9cb4f4-3aa3-4f0c-9d4c-5f2c9e6f3a11-{name}" for name in ("files", "more")}
    assert visible(checkpoint, "files") == visible(checkpoint, "more") == [0, 1]


@pytest.mark.parametrize("number", [0, 2])
def test_only_the_batch_that_runs_is_written(checkpoint, number):
    with pytest.raises(BadConfigurationError, match=f"'batchId': {number} is not the batch .* it runs batch 1"):
        write(checkpoint, "files", number, [7])
    (checkpoint / "commits/1").write_text("v1\n{}")
    with pytest.raises(BadConfigurationError, match="is through with batch 1"):
        write(checkpoint, "files", 1, [7])


def test_a_query_that_has_not_run_yet_has_no_batch(tmp_path):
    with pytest.raises(BadConfigurationError, match="has not run any batch yet"):
        BatchInFunction(SparkLog(LocalStorage(), str(tmp_path)), 0, "").planned(None)


def test_the_checkpoint_of_another_query_is_refused(checkpoint):
    batch = RunningBatch(str(checkpoint), 1, "files", query="another")
    with pytest.raises(BadConfigurationError, match=r"is the checkpoint of query 0b9cb4f4.* one of query another"):
        batch.check_query("0b9cb4f4-3aa3-4f0c-9d4c-5f2c9e6f3a11")


@pytest.mark.parametrize("query", ["", "6e1d4b9a-52f0-4d3c-8f0e-0d8a44a3c1b7"])
def test_a_checkpoint_that_was_deleted_is_another_querys(checkpoint, query):
    """As in a notebook: the checkpoint is removed, and the same process starts the query again."""
    shutil.rmtree(checkpoint)
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"6e1d4b9a-52f0-4d3c-8f0e-0d8a44a3c1b7"}')
    (checkpoint / "offsets/0").write_text("v1\n{}\n1")
    write(checkpoint, "files", 0, [5], "next run", query)
    assert visible(checkpoint, "files") == [0, 1, 5]


def test_what_a_driver_that_is_gone_has_decided_is_finished_by_hand(checkpoint, monkeypatch):
    leave_pending(checkpoint, "more", [2], monkeypatch)
    found = runner.invoke(app, ["inspect", str(checkpoint), "--json"])
    view = json.loads(found.stdout)
    assert [(one["name"], one["decided_batch"]) for one in view["sinks"]] == [("files", 0), ("more", 1)]
    assert "skips what is decided: more" in " ".join(view["next_start"])
    shown = runner.invoke(app, ["inspect", str(checkpoint)]).stdout
    assert "files, penstock.filesystem" in shown and "1 decision is pending" in " ".join(shown.split())
    assert runner.invoke(app, ["finish", str(checkpoint)]).exit_code == 4
    assert runner.invoke(app, ["finish", str(checkpoint), "--sink", "files"]).exit_code == 0
    assert visible(checkpoint, "more") == [0, 1]
    assert runner.invoke(app, ["finish", str(checkpoint), "--take-over"]).exit_code == 0
    assert visible(checkpoint, "more") == [0, 1, 2] and visible(checkpoint, "files") == [0, 1]


def test_a_start_finishes_what_was_decided_and_writes_what_was_not(checkpoint, monkeypatch):
    leave_pending(checkpoint, "more", [2], monkeypatch)
    for name in ("files", "more"):
        write(checkpoint, name, 1, [2], run="the next")
    assert visible(checkpoint, "files") == visible(checkpoint, "more") == [0, 1, 2]


def test_names_of_sinks_that_are_not_there(checkpoint):
    with pytest.raises(BadConfigurationError, match=r"no sink named 'alerts' .* there is files, more"):
        finish(str(checkpoint), sink="alerts")
    with pytest.raises(BadConfigurationError, match="name one of files, more"):
        open_stored_query(str(checkpoint))
    with pytest.raises(BadConfigurationError, match="name one of files, more"):
        penstock.checkpoint.resolve(str(checkpoint), write_all_again=True)
    with pytest.raises(BadConfigurationError, match="nothing is pending"):
        penstock.checkpoint.resolve(str(checkpoint), write_all_again=True, sink="files")


def test_offsets_are_restored_from_the_sink_that_is_furthest(checkpoint):
    results = write(checkpoint, "more", 1, [2])
    assert results.batch == 1
    before = (checkpoint / "offsets/1").read_bytes()
    (checkpoint / "offsets/1").write_text("v1\n{}\n99")
    assert restore_offsets(str(checkpoint)).offsets == before == (checkpoint / "offsets/1").read_bytes()


def test_what_spark_has_committed_since_its_log_was_changed_is_forgotten(checkpoint):
    """Batches 1 to 3 are others than the one that is decided, and the function has left them out."""
    write(checkpoint, "more", 1, [2])
    decided = (checkpoint / "offsets/1").read_bytes()
    for number in (1, 2, 3):
        for directory in ("offsets", "commits"):
            (checkpoint / f"{directory}/{number}").write_text(f"v1\n{{}}\n9{number}")
            (checkpoint / f"{directory}/.{number}.crc").write_text("crc")
    (checkpoint / "offsets/4").write_text("v1\n{}\n94")
    with pytest.raises(FatalError, match="restore-offsets"):
        write(checkpoint, "more", 4, [3], run="run 2")
    assert restore_offsets(str(checkpoint)).number == 1
    assert (checkpoint / "offsets/1").read_bytes() == decided
    assert sorted(os.listdir(checkpoint / "offsets")) == ["0", "1"] and os.listdir(checkpoint / "commits") == ["0"]


def test_offsets_that_are_there_as_decided_do_not_go_back(checkpoint):
    write(checkpoint, "more", 1, [2])
    for directory in ("offsets", "commits"):
        (checkpoint / f"{directory}/2").write_text("v1\n{}\n9")
    with pytest.raises(BadConfigurationError, match="Spark has committed batch 2"):
        restore_offsets(str(checkpoint))


def test_a_copy_with_something_pending_is_refused(checkpoint, monkeypatch):
    leave_pending(checkpoint, "more", [2], monkeypatch)
    with pytest.raises(BadConfigurationError, match="rows are open in it"):
        adopt(str(checkpoint), is_copy=True)
    take_over(str(checkpoint))
    adopt(str(checkpoint), is_copy=True)
    assert all("~" in query.names for query in open_stored_queries(str(checkpoint)))


# --- sinks of a pipeline file that are renamed ------------------------------------------------------------------------


def check_renamed(root, commit, checkpoint, name, path):
    """Checks a file with the sinks ``files`` and ``name`` against what is below ``checkpoint``."""
    sinks = "".join(
        f"  {one}: {{format: penstock.filesystem, options: {{path: {place}, format: json}}}}\n"
        for one, place in [("files", "files"), (name, path)]
    )
    file = root.parent / "pipeline.yaml"
    file.write_text(f"source: {{format: rate}}\nsinks:\n{sinks}commit: {commit}\ncheckpoint: {checkpoint}\n")
    pipeline, mistakes = check_pipeline(file)
    assert pipeline is not None and not mistakes
    check_layout(pipeline, pipeline.checkpoint)


def test_a_renamed_sink_does_not_write_the_last_batch_again(checkpoint):
    """Its old log has the batch, and Spark runs it again; the new log does not have it."""
    check_renamed(checkpoint, "each", "ck", "renamed", "./more")
    write(checkpoint, "more", 1, [2])
    said = "'renamed' writes where sink 'more' of .*/ck has written, and would write the last batch again"
    with pytest.raises(BadConfigurationError, match=said):
        check_renamed(checkpoint, "each", "ck", "renamed", "./more")
    check_renamed(checkpoint, "each", "ck", "more", "more")
    check_renamed(checkpoint, "each", "ck", "renamed", "third")
    (checkpoint / "commits/1").write_text("v1\n{}")
    check_renamed(checkpoint, "each", "ck", "renamed", "./more")


def test_a_renamed_sink_with_a_query_of_its_own_does_not_write_everything_again(checkpoint):
    apart = checkpoint.parent / "apart"
    for name in ("files", "more"):
        (apart / name / "penstock").mkdir(parents=True)
        shutil.copy(checkpoint / "penstock/sinks" / name / "penstock/sink.json", apart / name / "penstock")
        shutil.copy(checkpoint / "metadata", apart / name)
    said = "'renamed' writes where sink 'more' of .*/apart has written, and would write everything again"
    with pytest.raises(BadConfigurationError, match=said):
        check_renamed(checkpoint, "separate", "apart", "renamed", "more/")
    check_renamed(checkpoint, "separate", "apart", "more", "more")
    check_renamed(checkpoint, "separate", "apart", "third", "third")


# --- writes that a function repeats -----------------------------------------------------------------------------------


@pytest.fixture
def tried(monkeypatch):
    """Makes a write of a batch by a function: ``None``, or what it raises. Returns what its decision holds as its run.

    Sinks of other tests have no attempts here.
    """
    monkeypatch.setattr("penstock.spark._foreach_batch._attempts", {})

    class Writer:
        def __init__(self, *write):
            setattr(self, _WRITE, write)

        def option(self, *_):
            pass

        @as_attempt
        def save(self, error):
            if error is not None:
                raise error

    def tried(batch_id, error=None, name="files", run="run"):
        write = run, "ck", name, batch_id
        shown = run_of_attempt(*write)
        with contextlib.suppress(OSError):
            Writer(*write).save(error)
        return shown

    return tried


def test_a_write_after_one_that_failed_is_its_repetition(tried):
    assert tried(0, OSError()) == "run" and tried(0, OSError()) == "run.1" and tried(0) == "run.2"
    assert tried(1) == "run"


def test_a_write_after_one_that_returned_is_a_second_one(tried):
    """Also if it is refused, and the function catches that."""
    assert tried(0) == "run" and tried(0, OSError()) == "run" and tried(0) == "run"


def test_a_batch_that_is_run_again_has_attempts_of_its_own(tried):
    """Its first write had returned, and the query was started again in the same process."""
    assert tried(5) == "run"
    assert tried(5, OSError(), run="again") == "again" and tried(5, run="again") == "again.1"


def test_sinks_fail_each_by_itself(tried):
    assert tried(0, OSError()) == "run" and tried(0, name="more") == "run" and tried(0) == "run.1"


def test_other_writers_are_left_alone():
    assert as_attempt(lambda writer, path: path)(object(), "out") == "out"


def frame_over_connect():
    """A DataFrame whose writer keeps the run of each ``save()``, and fails as it is asked to."""

    class Writer:
        def __init__(self):
            self.options, self.runs = {}, []

        def option(self, name, text):
            self.options[name] = text
            return self

        def save(self, path=None, format=None, fails=False):
            self.runs.append(self.options["penstock.batch.run"])
            if fails:
                raise OSError("the store is away")

        def chained(self, *_, **__):
            return self

        mode = format = partitionBy = clusterBy = saveAsTable = chained
        csv = insertInto = jdbc = json = orc = parquet = text = xml = chained

    return SimpleNamespace(write=Writer())


@pytest.fixture
def to_connect(monkeypatch):
    monkeypatch.setattr("penstock.spark._foreach_batch._attempts", {})
    return penstock.batch_writer(frame_over_connect(), 0, checkpoint="ck", name="files")


@pytest.mark.parametrize("is_format_of_save", [False, True])
def test_a_writer_whose_save_has_failed_may_be_used_again(to_connect, is_format_of_save):
    """Also in the process of a batch function over Connect, which has not registered anything."""
    given = {"format": "penstock.filesystem"} if is_format_of_save else {}
    writer = to_connect if given else to_connect.format("penstock.filesystem")
    with pytest.raises(OSError):
        writer.save(**given, fails=True)
    writer.save(**given)
    first, second = writer.runs
    assert second == f"{first}.1"


def test_a_batch_writer_writes_to_sinks_of_penstock_only(to_connect):
    """Others would ignore the batch in silence."""
    refused = pytest.raises(BadConfigurationError, match=r"df\.write, which may write a batch again")
    with refused:
        to_connect.save("out")
    with refused:
        to_connect.format("parquet").save("out")
    with refused:
        to_connect.save("out", format="json")
    for name in ("parquet", "insertInto"):
        with refused:
            getattr(to_connect, name)("out")
    assert to_connect.runs == []


# --- options ----------------------------------------------------------------------------------------------------------

WHOLE = {"checkpointLocation": "/ck", "batchId": "3", "sinkName": "alerts"}


def test_options_name_the_batch():
    given = {name.lower(): text for name, text in WHOLE.items()}  # as Spark passes them on
    assert RunningBatch.of(given, "sink") == RunningBatch("/ck", 3, "alerts")


@pytest.mark.parametrize("left_out", WHOLE)
def test_a_part_of_the_options_is_refused(left_out):
    given = {name: text for name, text in WHOLE.items() if name != left_out}
    with pytest.raises(BadConfigurationError, match=f"needs '{left_out}' as well: penstock.batch_writer"):
        RunningBatch.of(given, "sink")


@pytest.mark.parametrize(
    ("name", "text"),
    [("batchId", "-1"), ("batchId", "three"), ("sinkName", "a b"), ("sinkName", "../x"), ("sinkName", "-")],
)
def test_texts_that_are_none_are_refused(name, text):
    with pytest.raises(BadConfigurationError, match=f"option '{name}'"):
        RunningBatch.of({**WHOLE, name: text}, "sink")


def test_a_write_that_would_come_again_is_said_once_in_a_run(caplog):
    _warned.clear()
    for _ in range(2):
        assert RunningBatch.of({"penstock.batch.run": "r", "penstock.batch.query": "q"}, "sink penstock.x") is None
    assert caplog.text.count("without 'batchId'") == 1


def test_the_helper_refuses_a_name_at_once():
    class Frame:
        class write:
            mode = staticmethod(lambda _: Frame.write)
            option = staticmethod(lambda *_: Frame.write)

    with pytest.raises(BadConfigurationError, match="sinkName"):
        penstock.batch_writer(Frame, 1, checkpoint="/ck", name="no name")


def test_the_fingerprint_knows_nothing_of_the_run():
    assert Batch(1, b"x", "a").fingerprint == Batch(1, b"x", "b").fingerprint
