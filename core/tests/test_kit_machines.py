"""What the kit takes for another machine, and what it compares: the mechanisms that its cases rely on."""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from penstock.testing._differences import difference
from penstock.testing._machines import GlobalState, elsewhere
from penstock.testing._processes import processes


def place_and_hash() -> tuple[str, str, int, bool]:
    return os.getcwd(), tempfile.gettempdir(), hash("text"), {"text": 1}["text"] == 1


def test_each_process_has_a_folder_and_hashes_of_its_own():
    first, second = (processes().run(place_and_hash) for _ in range(2))
    assert len({first[0], second[0], os.getcwd()}) == 3 and first[:2] == (first[0], first[0])
    assert len({first[2], second[2], hash("text")}) == 3 and first[3]
    assert not Path(first[0]).exists()


def test_elsewhere_is_another_time_zone_and_encoding_and_ends(tmp_path):
    zone, text = time.tzname, tmp_path / "text"
    with elsewhere():
        assert time.tzname == ("CET", "CEST")
        with pytest.raises(UnicodeEncodeError):
            text.write_text("ü")
    assert time.tzname == zone
    text.write_text("ü")


def test_what_changed_for_the_whole_process_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    state = GlobalState()
    for _ in range(2):
        random.seed(7)
        state.look()
    assert [one.partition(":")[0] for one in state.changes()] == ["random numbers"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLAWED", "x")
    assert [one.partition(":")[0] for one in state.changes()] == [
        "the working directory",
        "environment variables",
        "random numbers",
    ]
    assert GlobalState().changes() == []


def test_a_thread_that_dies_is_named(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    state = GlobalState()
    thread = threading.Thread(target=lambda: [][0], name="heartbeat")
    thread.start()
    thread.join()
    assert state.changes() == ["thread heartbeat ended with IndexError: list index out of range"]


def test_of_two_equal_rows_none_may_be_lost():
    assert difference(Counter({0: 1}), Counter({0: 2})) == "lost: row 0 of 1 rows"
    assert difference(Counter({0: 2}), Counter({0: 2})) == ""
