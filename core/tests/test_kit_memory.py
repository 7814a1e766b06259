"""What the kit measures as memory, after a process has done other things."""

from __future__ import annotations

import gc
import itertools
import logging
import time
from collections import deque
from types import SimpleNamespace

import pyarrow as pa
import pytest

from penstock.testing import _memory
from penstock.testing._memory import HeldBytes, counting_objects, growth_of_batches, peak_growth_bytes
from penstock.testing._source_data import _Reading

_ROWS, _TEXT = 100_000, "x" * 1_000


@pytest.fixture
def own_objects(monkeypatch):
    """Leaves out of the counts what earlier tests have made: there may be millions, and the kit looks at each."""
    names = ("collect", "freeze", "get_freeze_count", "get_objects", "get_referents", "is_tracked")
    own = SimpleNamespace(**{name: getattr(gc, name) for name in names}, unfreeze=lambda: None)
    monkeypatch.setattr(_memory, "gc", own)
    was_frozen = gc.get_freeze_count() > 0  # the suite's own objects, which stay so
    gc.collect()
    gc.freeze()
    yield
    if not was_frozen:
        gc.unfreeze()


def _hold():
    return [f"{_TEXT}{i}" for i in range(_ROWS)]


def test_what_was_freed_before_hides_no_growth():
    held = _hold() + _hold()
    kept = held[::100]
    del held
    assert peak_growth_bytes(_hold) > 0.9 * _ROWS * len(_TEXT)
    assert len(kept) == 2_000


def test_what_arrow_keeps_for_later_hides_no_growth():
    numbers = 8 << 20
    pa.repeat(1, numbers)
    assert peak_growth_bytes(lambda: pa.repeat(1, numbers)) > 0.9 * numbers * 8


def test_what_is_held_before_is_no_growth():
    held = _hold()
    assert peak_growth_bytes(lambda: None) < 10 << 20
    assert len(held) == _ROWS


def test_what_objects_and_arrow_hold_is_counted_and_what_is_free_is_not():
    with counting_objects():
        held = HeldBytes()
        kept = bytearray(1 << 20), pa.repeat(1, 1 << 17)
        assert 2 << 20 < held.now() < (2 << 20) + 10_000
        del kept
        assert held.kept() < 10_000


def _log_an_error():
    try:
        raise ConnectionError(bytes(10_000))
    except ConnectionError as error:
        logging.getLogger("some.client").warning("Cannot connect: %s", error, exc_info=True)


def test_what_is_logged_meanwhile_is_not_counted(caplog, own_objects):
    with counting_objects():
        held = HeldBytes()
        _log_an_error()
        assert held.kept() < 10_000
    assert growth_of_batches(_log_an_error) == ""
    caplog.clear()
    _log_an_error()
    assert len(caplog.records) == 1, "is logged as before"


@pytest.mark.parametrize("kind", [list, dict, set])
def test_what_is_kept_of_each_batch_is_found(own_objects, kind):
    numbers, hold = itertools.count(), kind()

    def run_batch():
        number = f"batch {next(numbers)}"
        if isinstance(hold, list):
            hold.append(number)
        elif isinstance(hold, dict):
            hold[number] = 1
        else:
            hold.add(number)

    assert "elements" in growth_of_batches(run_batch)


def test_arrow_that_is_kept_is_found(own_objects):
    kept = None

    def run_batch():
        nonlocal kept
        kept = (pa.repeat(1, 1000), kept)

    assert "bytes of Arrow" in growth_of_batches(run_batch)


def test_a_cache_that_is_full_at_some_time_is_no_growth(own_objects):
    numbers = itertools.count()
    cache = {}

    def run_batch():
        cache[next(numbers) % 40] = 1

    assert growth_of_batches(run_batch) == ""


def test_a_state_that_grows_may_be_known(own_objects):
    state = []
    assert growth_of_batches(lambda: state.append(1), lambda: 10 * len(state)) == ""


def test_without_time_nothing_is_said(own_objects, monkeypatch):
    monkeypatch.setattr("penstock.testing._memory._BATCHES_S", 0.0)
    assert growth_of_batches(lambda: None) is None


@pytest.mark.parametrize(
    ("rows", "holds", "keeps"),
    [
        ({"peak": 1_000_000}, True, False),
        ({"peak": 400_000}, False, False),
        ({"kept": 1_000_000}, True, True),
    ],
)
def test_a_task_that_holds_more_of_more_rows_is_found(rows, holds, keeps):
    few, many = _Reading(100_000, 800_000, 100_000, 0), _Reading(200_000, 1_600_000, 100_000, 0)
    many.peak = rows.get("peak", many.peak)
    many.kept = rows.get("kept", many.kept)
    assert (many.holds_more_than(few), many.keeps_more_than(few)) == (holds, keeps)


def test_what_each_reading_leaves_does_not_grow_with_the_rows():
    few, same, more = (_Reading(rows, 8 * rows, 0, kept) for rows, kept in [(10, 99_000), (20, 99_000), (20, 190_000)])
    assert same.holds_more_than(few) and not same.keeps_more_than(few), "it is looked at again, with more rows"
    assert more.holds_more_than(few) and more.keeps_more_than(few)


def test_a_cache_that_is_full_in_the_last_comparison_only_is_no_growth(own_objects):
    cache = deque(maxlen=240)
    assert growth_of_batches(lambda: cache.append(None)) == ""


def test_a_pool_that_opens_a_connection_now_and_then_is_no_growth(own_objects):
    batches, pool = itertools.count(), []

    def run_batch():
        if next(batches) % 60 == 30:
            pool.append([None] * 59)

    assert growth_of_batches(run_batch) == ""


@pytest.mark.parametrize(("goes", "settles_s", "grows"), [(True, 0.05, False), (False, 0.05, True), (True, 0, True)])
def test_what_goes_in_time_is_no_growth(own_objects, monkeypatch, goes, settles_s, grows):
    timers = []
    own = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: timers.clear() if goes else None)
    # Only the kit's clock: a thread of another test that sleeps must not clear the timers.
    monkeypatch.setattr(_memory, "time", own)
    assert ("elements" in growth_of_batches(lambda: timers.append(None), settles_s=settles_s)) is grows
