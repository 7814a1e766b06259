"""What is wrong with a checkpoint's files, before a query starts on them."""

from __future__ import annotations

import threading

import pytest

from penstock.checkpoint import SparkLog, damage_of
from penstock.errors import BadDataError
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
