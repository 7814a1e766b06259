"""A call that does not return fails its case: how its time is counted."""

from __future__ import annotations

import threading

import pytest

from penstock.testing import _calls
from penstock.testing._calls import calling, overdue, patiently, progress, slowness, stacks
from penstock.testing._faults import Fuse
from penstock.testing._processes import processes
from penstock.testing._time_limit import call_limit_s, time_limit


@pytest.fixture(autouse=True)
def idle(monkeypatch):
    """A machine that has nothing else to do."""
    monkeypatch.setattr(_calls, "slowness", lambda: 1.0)


def test_a_call_without_a_step_is_overdue():
    assert overdue(1000, 10, 1) == ""
    with calling("fetch"):
        assert [overdue(6, 10, 1), overdue(6, 10, 1)] == ["", "fetch"]
        progress()
        assert overdue(6, 10, 1) == ""
    assert overdue(1000, 10, 1) == ""


def test_a_step_of_the_engine_is_progress():
    fuse = Fuse()
    with calling("the commit of a batch"):
        overdue(6, 10, 1)
        fuse.do("publish", lambda: None)
        assert overdue(6, 10, 1) == ""


def test_a_call_may_wait_while_the_system_is_away():
    with calling("publish"), patiently():
        assert overdue(1000, 10, 1) == ""


def test_time_passes_slowly_on_a_busy_machine(monkeypatch):
    monkeypatch.setattr(_calls, "slowness", lambda: 4.0)
    with calling("fetch"):
        assert [overdue(20, 10, 1), overdue(21, 10, 1)] == ["", "fetch"]


def test_a_process_that_only_waits_has_less_use_for_a_faster_machine(monkeypatch):
    monkeypatch.setattr(_calls, "slowness", lambda: 40.0)
    with calling("fetch"):
        assert [overdue(20, 10, 0), overdue(1, 10, 0)] == ["", "fetch"]


def test_how_many_want_a_processor(monkeypatch, tmp_path):
    load = tmp_path / "loadavg"
    monkeypatch.setattr(_calls, "_LOAD", load)
    monkeypatch.setattr(_calls.os, "cpu_count", lambda: 2)
    load.write_text("0.10 0.20 0.30 8/500 1234\n")
    assert slowness() == 4
    load.write_text("9.00 9.00 9.00 1/500 1234\n")
    assert slowness() == 1


def test_a_wait_is_ended_and_shown():
    def wait_for_an_answer():
        with calling("publish"):
            threading.Event().wait(60)

    limit = time_limit(60, "the case", 0.05)
    with pytest.raises(pytest.fail.Exception, match=r"in the case, publish has not returned") as ended, limit:
        wait_for_an_answer()
    assert "wait_for_an_answer" in ended.value.msg
    assert call_limit_s() == float("inf")


def wait_in_a_process() -> None:
    with calling("write"):
        threading.Event().wait(60)


def test_a_process_of_its_own_has_the_limit_of_its_case():
    with time_limit(60, "the case", 0.05), pytest.raises(RuntimeError, match="write has not returned"):
        processes().run(wait_in_a_process)


def test_threads_of_the_core_are_shown():
    done, begun = threading.Event(), threading.Event()

    def fetch_for_ever():
        begun.set()
        done.wait(60)

    thread = threading.Thread(target=fetch_for_ever, name="penstock-fetcher", daemon=True)
    thread.start()
    begun.wait(60)
    try:
        assert "fetch_for_ever" in stacks()
    finally:
        done.set()
        thread.join()
