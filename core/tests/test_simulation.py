"""The protocol under schedules by chance: nothing is lost, doubled, seen too early, or left for ever."""

from __future__ import annotations

import gc
import logging
from dataclasses import replace
from functools import partial

import pytest
from greenlet import greenlet

from penstock._commit import Chain, Publishing, TwoPhaseCommit
from penstock.sink import Found
from penstock.testing.simulation import (
    CellTarget,
    Faults,
    PieceTarget,
    Plan,
    SendTarget,
    run_schedule,
    search,
    search_completely,
)
from suite.letters_model import LettersTarget
from suite.schedules import check_schedules, check_seed
from suite.union_model import UnionTarget

TARGETS = {
    "two-phase": PieceTarget,
    "two-phase with carried state": partial(PieceTarget, carries=True),
    "write-ahead": SendTarget,
    "idempotent": CellTarget,
    "two sinks as one": UnionTarget,
    "dead letters": LettersTarget,
}


@pytest.fixture(autouse=True)
def _quiet(caplog):
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "schedules",
    [250, pytest.param(3_000, marks=pytest.mark.exhaustive("more of them; scripts/soak simulate tries a million"))],
)
def test_schedules_by_chance(target, schedules):
    ends = "killed before", "times out", "done, and fails", "refused", "unanswered, and late"
    check_schedules(TARGETS[target], schedules, *ends)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "schedules",
    [200, pytest.param(3_000, marks=pytest.mark.exhaustive("more of them; scripts/soak simulate tries a million"))],
)
def test_schedules_by_chance_of_a_batch_function(target, schedules):
    """It writes to one sink; another has a decision log of its own, and nothing in common with this one."""
    check_schedules(TARGETS[target], schedules, "killed before", "times out", in_batch=True)


def test_logs_of_spark_that_were_deleted_are_noticed_where_a_function_leaves_batches_out():
    """The seed of the schedule that found this: the first batch after the deletion was left out."""
    check_seed(PieceTarget, 101314, in_batch=True)


QUIET = Plan(
    rows=2, second_drivers=0, rolls=0, finishes=0, takeovers=0, ends=0, rewinds=0, target_events=0, is_varied=False
)
#: Worlds in which everything that can happen is tried. One batch of two rows, two tasks, unless rows say otherwise.
WORLDS = {
    "a crash at every call": {"faults": Faults(crashes=1, late_calls=0, errors=0)},
    "an answer that is late at every call": {"faults": Faults(crashes=0, late_calls=1, errors=0)},
    "an error at every call": {"faults": Faults(crashes=0, late_calls=0, errors=1)},
}


def tried_completely(target, world, **limits):
    found = search_completely(replace(QUIET, **world), TARGETS[target], **limits)
    assert found.failure is None, str(found.failure)
    print(f"{target}: {found}")
    return found


SLOW = pytest.mark.exhaustive("seconds; the other templates stay, and for this one the two other worlds")
#: Those with more than one sink, and the one with the most calls.
OF_MANY_STATES = ("write-ahead", "two sinks as one", "dead letters")


@pytest.mark.parametrize(
    ("target", "world"),
    [
        pytest.param(target, world, marks=[SLOW] if target in OF_MANY_STATES and "late" in world else [])
        for target in TARGETS
        for world in WORLDS
    ],
)
def test_everything_that_can_happen_in_a_small_world(target, world):
    found = tried_completely(target, WORLDS[world])
    assert found.is_complete and found.states > 100 and found.ends > 1


#: Two runs, two batches, two tasks. With write-ahead a crash and a late answer in one schedule are too many states for
#: the memory of a machine: they are tried one at a time.
CRASH, LATE = Faults(crashes=1, late_calls=0, errors=0), Faults(crashes=0, late_calls=1, errors=0)
TWO_BATCHES = [
    ("two-phase", Faults(crashes=1, late_calls=1, errors=0)),
    ("two-phase with carried state", Faults(crashes=1, late_calls=1, errors=0)),
    ("write-ahead", CRASH),
    ("write-ahead", LATE),
    ("idempotent", Faults(crashes=1, late_calls=1, errors=0)),
]


@pytest.mark.exhaustive("minutes: everything that can happen is tried")
@pytest.mark.budget(300)
@pytest.mark.parametrize(("target", "faults"), TWO_BATCHES)
def test_everything_that_can_happen_in_a_world_of_two_batches(target, faults):
    found = tried_completely(target, {"rows": 4, "faults": faults})
    assert found.is_complete and found.states > 5_000


def test_a_report_says_what_was_called():
    both, first, second = (search(seeds, PieceTarget) for seeds in (range(20), range(10), range(10, 20)))
    assert both.calls["publish"] > 0 and both.calls["Spark"] > 0 and all(" " not in name for name in both.calls)
    assert first + second == both
    schedules, calls, ended, links = str(both).splitlines()
    assert schedules == f"20 schedules, {both.steps} steps" and f"{both.calls['publish']} publish" in calls
    assert f"{both.ends['done']} done" in ended and f"{both.links['batch']} batch" in links


def greenlets():
    gc.collect()
    return sum(isinstance(one, greenlet) for one in gc.get_objects())


@pytest.mark.parametrize("target", TARGETS)
def test_processes_that_were_killed_leave_nothing_behind(target):
    search(range(5), TARGETS[target])
    before = greenlets()
    assert search(range(5, 60), TARGETS[target]).ends["killed"] > 20
    # What is left is of the last schedule.
    assert greenlets() < before + 25


def test_a_complete_search_finds_what_is_broken(monkeypatch):
    monkeypatch.setattr(*BROKEN["done is noted before it is true"])
    plan = replace(QUIET, faults=Faults(crashes=1, late_calls=0, errors=0))
    found = search_completely(plan, PieceTarget)
    assert found.failure is not None and "lost" in found.failure.violation


def publish_without_looking(self, committer, link, committables, owner):
    return Found.LOST not in committer.publish(committables)


def done_before_it_is_published(self, link, *, owner):
    self._chain.mark_done(link.number)
    return real_carry_out(self, link, owner=owner)


real_carry_out = Publishing.carry_out
BROKEN = {
    "nobody compares ids": (
        Chain,
        "create",
        lambda self, link: self.storage.create(self._path(link.number), link.to_bytes()) or True,
    ),
    "done is noted before it is true": (Publishing, "carry_out", done_before_it_is_published),
    "garbage is what is still needed": (TwoPhaseCommit, "_claim", lambda self, head, **_: head),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_that_is_broken_is_found_and_shown(monkeypatch, rule):
    """The search can fail, and what it shows is short."""
    monkeypatch.setattr(*BROKEN[rule])
    report = search(range(2_000), TARGETS["two-phase"])
    (failure,) = report.failures
    assert len(failure.trace) < 120, str(failure)
    assert run_schedule(failure.seed, TARGETS["two-phase"]).violation == failure.violation or failure.choices
