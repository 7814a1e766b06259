"""Files that change or disappear after planning, cleaning up after the commit, and the reader's own behaviour."""

from __future__ import annotations

import json
import os
import pickle

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, BadDataError, DataLostError, RetriableError
from penstock.source import ReaderContext
from penstock_filesystem.options import SOURCE_OPTIONS

SCHEMA = pa.schema([("value", pa.string())])


@pytest.fixture
def planned(tmp_path, source_harness):
    """A source and its two splits, of a.txt and b.txt."""

    def plan(**options):
        for name in ("a", "b"):
            (tmp_path / f"{name}.txt").write_text(f"{name}\n")
        source = source_harness.source(tmp_path, format="text", **options)
        return source, source_harness.splits(source)

    return plan


def test_a_changed_file_fails_by_default(planned, source_harness, tmp_path):
    source, splits = planned()
    (tmp_path / "a.txt").write_text("changed\n")
    with pytest.raises(BadDataError, match=r"a\.txt changed after it was planned.*changedFiles"):
        source_harness.read_splits(source, splits, SCHEMA)
    assert source_harness.metrics.snapshot()["changed_files"] == 1


@pytest.mark.parametrize(("policy", "rows"), [("skip", ["b"]), ("read", ["aa", "b"])])
def test_a_changed_file_is_skipped_or_read_on_request(planned, source_harness, tmp_path, policy, rows):
    source, splits = planned(changedFiles=policy)
    (tmp_path / "a.txt").write_text("aa\nappended\n")
    assert source_harness.read_splits(source, splits, SCHEMA).column("value").to_pylist() == rows
    assert source_harness.metrics.snapshot()["changed_files"] == 1


def test_a_file_that_shrank_is_read_as_it_is_on_request(tmp_path, source_harness):
    (tmp_path / "a.txt").write_text("".join(f"{i}\n" for i in range(10)))
    source = source_harness.source(tmp_path, format="text", changedFiles="read", maxSplitBytes=5)
    splits = source_harness.splits(source)
    (tmp_path / "a.txt").write_text("0\n1\n")
    assert source_harness.read_splits(source, splits, SCHEMA).column("value").to_pylist() == ["0", "1"]


def test_a_touched_file_has_changed(planned, source_harness, tmp_path):
    source, splits = planned()
    os.utime(tmp_path / "b.txt", (5, 5))
    with pytest.raises(BadDataError, match=r"b\.txt changed"):
        source_harness.read_splits(source, splits, SCHEMA)


def test_a_missing_file(planned, source_harness, tmp_path):
    source, splits = planned()
    (tmp_path / "a.txt").unlink()
    with pytest.raises(DataLostError, match=r"a\.txt disappeared.*ignoreMissingFiles"):
        source_harness.read_splits(source, splits, SCHEMA)
    lenient = source_harness.source(tmp_path, format="text", ignoreMissingFiles=True)
    assert source_harness.read_splits(lenient, splits, SCHEMA).column("value").to_pylist() == ["b"]
    assert source_harness.metrics.snapshot()["missing_files"] == 2


@pytest.mark.parametrize("lenient", [False, True])
def test_a_file_that_was_away_for_a_moment_is_not_missing(planned, source_harness, tmp_path, lenient):
    """It must be back when the directory is looked at, or with ignoreMissingFiles its rows would be lost."""
    source, splits = planned()
    source = source_harness.source(tmp_path, format="text", ignoreMissingFiles=lenient)
    reader = source.create_reader(ReaderContext(SCHEMA, source_harness.metrics))
    reader.handle_splits_changes(splits)
    check_is_there = reader._storage.check_is_there
    aside = tmp_path.with_name("aside")

    def back(directory):
        aside.rename(tmp_path)
        check_is_there(directory)

    reader._storage.check_is_there = back
    tmp_path.rename(aside)
    with pytest.raises(RetriableError, match="was not there for a moment"):
        reader.fetch()
    rows = 0
    while reader._splits:
        rows += len(reader.fetch().records)
    assert rows == len(splits)


def test_a_failed_fetch_goes_on_where_it_was(tmp_path, source_harness, monkeypatch):
    (tmp_path / "a.txt").write_text("".join(f"{i:06}\n" for i in range(2_000_000)))
    source = source_harness.source(tmp_path, format="text")
    reader = source.create_reader(ReaderContext(SCHEMA, source_harness.metrics))
    reader.handle_splits_changes(source_harness.splits(source))
    blocks = [reader.fetch().records[0][1]]

    def broken(_):
        raise OSError(5, "i/o error")

    reader._elements = map(broken, [0])
    with pytest.raises(RetriableError, match=r"a\.txt could not be read"):
        reader.fetch()
    reader.wake_up()
    assert reader.fetch().records == []
    while not (fetched := reader.fetch()).finished_splits:
        blocks += [element for _, element in fetched.records]
    assert b"".join(block.data for block in blocks) == (tmp_path / "a.txt").read_bytes()
    assert reader.fetch().records == []
    reader.close()


def clean(source, harness, splits):
    enumerator = source.create_enumerator(harness.context(), None)
    enumerator.notify_checkpoint_complete(splits)
    enumerator.close()


def test_read_files_are_deleted_after_the_commit(planned, source_harness, tmp_path):
    source, splits = planned(cleanSource="delete", maxSplitBytes=1)
    assert len(splits) == 4
    clean(source, source_harness, splits[:3])  # of b.txt the last range is not committed
    assert os.listdir(tmp_path) == ["b.txt"]
    clean(source, source_harness, splits[3:])
    assert os.listdir(tmp_path) == [] and source_harness.metrics.snapshot()["cleaned_files"] == 2


def test_read_files_are_archived_with_their_path(tmp_path, source_harness):
    (tmp_path / "in/x").mkdir(parents=True)
    (tmp_path / "in/x/a.txt").write_text("a\n")
    source = source_harness.source(
        tmp_path / "in", format="text", cleanSource="archive", sourceArchiveDir=str(tmp_path / "old")
    )
    clean(source, source_harness, source_harness.splits(source))
    assert (tmp_path / "old/x/a.txt").read_text() == "a\n" and not (tmp_path / "in/x/a.txt").exists()
    inside = {"cleanSource": "archive", "sourceArchiveDir": str(tmp_path / "in/old")}
    with pytest.raises(BadConfigurationError, match="sourceArchiveDir is in"):
        clean(source_harness.source(tmp_path / "in", format="text", **inside), source_harness, [])
    with pytest.raises(BadConfigurationError, match="needs the option 'sourceArchiveDir'"):
        source_harness.source(tmp_path, format="text", cleanSource="archive")


def test_a_file_that_cannot_be_cleaned_is_counted(planned, source_harness, tmp_path, caplog):
    (tmp_path.parent / "blocked").write_text("a file where the archive should be")
    source, splits = planned(cleanSource="archive", sourceArchiveDir=str(tmp_path.parent / "blocked"))
    (tmp_path / "b.txt").write_text("replaced since\n")
    clean(source, source_harness, splits)
    assert source_harness.metrics.snapshot()["clean_failures"] == 1
    assert (tmp_path / "b.txt").exists() and "b.txt changed after it was read" in caplog.text


@pytest.mark.parametrize("way", ["delete", "archive"])
def test_a_file_that_is_away_counts_as_one_that_could_not_be_cleaned(planned, source_harness, tmp_path, way):
    archive = {"sourceArchiveDir": str(tmp_path.parent / "old")} if way == "archive" else {}
    source, splits = planned(cleanSource=way, **archive)
    (tmp_path / "b.txt").unlink()  # is gone: there is nothing to clean
    aside = tmp_path.with_name("aside")
    enumerator = source.create_enumerator(source_harness.context(), None)
    tmp_path.rename(aside)
    enumerator.notify_checkpoint_complete(splits)
    enumerator.close()
    aside.rename(tmp_path)
    assert source_harness.metrics.snapshot()["clean_failures"] == 2
    clean(source, source_harness, splits)
    assert os.listdir(tmp_path) == [] and source_harness.metrics.snapshot()["cleaned_files"] == 1


def test_options_that_do_not_go_together(source_harness, tmp_path):
    for options, words in [
        ({"encoding": "klingon"}, "'klingon' is not the name of a character set"),
        ({"timeZone": "Mars/Olympus"}, "'Mars/Olympus' is not an IANA time zone"),
        ({"lineSep": ""}, "lineSep"),
    ]:
        with pytest.raises(BadConfigurationError, match=words):
            source_harness.source(tmp_path, format="text", **options)
    with pytest.raises(BadConfigurationError, match="needs a path"):
        source_harness.source("", format="text")
    with pytest.raises(BadConfigurationError, match="no file with anything in it"):
        source_harness.source(tmp_path, format="csv").infer_schema()
    with pytest.raises(BadConfigurationError, match="the same file system"):
        source_harness.source(tmp_path, format="text", paths='["s3://b/x"]')


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("hdfs://a:8020/in", "hdfs://b:8020/in"),
        ("abfss://c@a.dfs.core.windows.net/in", "abfss://c@b.dfs.core.windows.net/in"),
        ("/in", "s3://b/in"),
    ],
)
def test_paths_of_two_systems_are_refused(source_harness, one, other):
    """Those of the second one were looked for on the first."""
    with pytest.raises(BadConfigurationError, match="the same file system"):
        source_harness.source(one, format="text", paths=json.dumps([other]))
    with pytest.raises(BadConfigurationError, match=r"'basePath'.* is not in"):
        source_harness.source(f"{one}/below", format="text", basePath=other)
    source = source_harness.source(one, format="text", cleanSource="archive", sourceArchiveDir=other)
    with pytest.raises(BadConfigurationError, match="sourceArchiveDir must be in the file system that is read"):
        source.create_enumerator(source_harness.context(), None)


def test_a_pickled_source_shows_no_secret(source_harness):
    source = source_harness.source("s3://b/x", format="text", s3_key="k", s3_secret="hush")
    assert "hush" not in repr(source) and "hush" not in repr(source._options)
    assert pickle.loads(pickle.dumps(source)).read_limits() == source.read_limits()


def test_every_option_says_what_it_does():
    assert all(option.doc for option in SOURCE_OPTIONS)
