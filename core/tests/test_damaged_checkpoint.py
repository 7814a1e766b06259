"""What is wrong with a checkpoint's files, before a query starts on them."""

from __future__ import annotations

import os
import threading

import pytest

from penstock.checkpoint import SparkLog, damage_of
from penstock.errors import BadConfigurationError, BadDataError
from penstock.spark import _damaged_checkpoints
from penstock.spark._damaged_checkpoints import looking_first
from penstock.storage import LocalStorage

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"penstock":1,"seq":1}'
FILES = {
    "metadata": '{"id":"6a1f3e9c-0000-0000-0000-000000000000"}',
    "offsets/0": OFFSETS,
    "offsets/1": OFFSETS,
    "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
}


@pytest.fixture
def checkpoint(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "ck" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "ck"


def test_a_whole_one_and_one_that_is_not_there(checkpoint):
    assert damage_of(LocalStorage(), str(checkpoint)) == []
    assert damage_of(LocalStorage(), str(checkpoint / "nowhere")) == []


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("metadata", "{", "metadata"),
        ("offsets/1", "", r"offsets/1 is damaged \(it is empty\): nothing of batch 1 counts yet: remove this file"),
        ("offsets/1", "v1\n{}", r"it is cut off"),
        ("offsets/1", OFFSETS[:-3], r"offsets/1 is damaged \(JSONDecodeError"),
        ("offsets/0", "no version", r"it does not begin with a version\): put the checkpoint back from a copy"),
        ("offsets/0", "very\n{}\n{}", r"it does not begin with a version\): put the checkpoint back from a copy"),
        ("commits/0", "very\n{}", r"commits/0 is damaged: remove it and \.0\.crc next to it"),
        ("commits/0", "v1\n", r"commits/0 is damaged: remove it and \.0\.crc next to it; the next start runs batch 0"),
    ],
)
def test_a_damaged_file_is_named_with_its_repair(checkpoint, name, text, says):
    (checkpoint / name).write_text(text)
    (error,) = damage_of(LocalStorage(), str(checkpoint))
    assert isinstance(error, BadDataError)
    with pytest.raises(BadDataError, match=says):
        raise error


LEFTOVERS = {".0.adf1b5ed-aae1-416c-9323-01bd1eec07bf.tmp", "..0.adf1b5ed-aae1-416c-9323-01bd1eec07bf.tmp.crc"}


@pytest.mark.parametrize("noted", [False, True])
def test_what_a_kill_left_of_a_first_batch_is_removed_and_nothing_else(tmp_path, noted):
    for name in LEFTOVERS | {"a file of yours"} | ({"0", ".0.crc"} if noted else set()):
        (tmp_path / "ck" / "offsets").mkdir(parents=True, exist_ok=True)
        (tmp_path / "ck" / "offsets" / name).touch()
    before = {path.name for path in (tmp_path / "ck" / "offsets").iterdir()}
    SparkLog(LocalStorage(), str(tmp_path / "ck")).clear_unwritten()
    assert {path.name for path in (tmp_path / "ck" / "offsets").iterdir()} == (before if noted else before - LEFTOVERS)


def test_a_query_without_a_checkpoint_yet(tmp_path):
    SparkLog(LocalStorage(), str(tmp_path / "ck")).clear_unwritten()
    assert not (tmp_path / "ck").exists()


def test_all_damaged_files_are_named(checkpoint):
    for name in FILES:
        (checkpoint / name).write_text("")
    assert len(damage_of(LocalStorage(), str(checkpoint))) == len(FILES)


class Waiting(LocalStorage):
    """Answers no request until six are under way, which is once."""

    def __init__(self):
        super().__init__()
        self.met = False
        self._six = threading.Barrier(6, action=lambda: setattr(self, "met", True))

    def __getattribute__(self, name):
        if name in ("exists", "read", "list_names", "list_tree") and not self.met:
            self._six.wait(60)
        return super().__getattribute__(name)


def test_what_does_not_depend_on_an_answer_is_asked_at_once(checkpoint):
    storage = Waiting()
    assert damage_of(storage, str(checkpoint)) == []
    assert storage.met


class _Writer:
    """A stream's writer of a session whose paths are local."""

    _penstock_options: dict[str, str]

    def __init__(self, location: str, *failure: Exception) -> None:
        self._penstock_options = {"checkpointlocation": location}
        self._failure = failure

    def start(self, options: str = "") -> str:
        for error in self._failure:
            raise error
        return "started"


def _start(location, *failure):
    return looking_first(_Writer.start)(_Writer(location, *failure))


@pytest.mark.parametrize("location", ["{}/file", "{}/file/below/it", "file:{}/file", "{}/link"])
def test_a_location_that_is_no_directory(location, tmp_path, monkeypatch):
    monkeypatch.setattr(_damaged_checkpoints, "_is_local", lambda location, writer: True)
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "at" / "all")
    with pytest.raises(BadConfigurationError, match=r"Location': .*/(file is a file|link leads nowhere)\. Name"):
        _start(location.format(tmp_path))
    assert _start(f"{tmp_path}/new/one") == "started" and not (tmp_path / "new").exists()


@pytest.mark.parametrize("location", ["", "  "])
def test_a_location_that_is_empty(location):
    with pytest.raises(BadConfigurationError, match="'checkpointLocation': it is empty"):
        _start(location)


def test_a_location_where_this_user_can_not_write(tmp_path, monkeypatch):
    monkeypatch.setattr(_damaged_checkpoints, "_is_local", lambda location, writer: True)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(BadConfigurationError, match=f"this user can't write in {tmp_path}"):
        _start(f"{tmp_path}/ck")


_TRACE = """java.io.IOException: mkdir of file:/proc/ck failed
\tat org.apache.hadoop.fs.FileSystem.mkdir(FileSystem.java)
\tat org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream$.apply(ResolveWriteToStream.scala)"""


def test_what_hadoop_refuses_ends_with_a_sentence_of_ours():
    error = Exception(_TRACE)
    with pytest.raises(
        BadConfigurationError, match=r": s3://a\.b/c can't be used: mkdir of file:/proc/ck failed\. Name"
    ) as ours:
        _start("s3://a.b/c", error)
    assert ours.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        ValueError("something else"),
        BadDataError(_TRACE),
        Exception(_TRACE.partition("\tat org.apache.spark")[0]),
        Exception(f"{_TRACE}\nTraceback (most recent call last)"),
    ],
)
def test_other_errors_stay_as_they_are(error):
    with pytest.raises(type(error)) as raised:
        _start("s3://a.b/c", error)
    assert raised.value is error
