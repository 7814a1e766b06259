"""Independent requests at the same time: their order, how many, and what a failure does."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.system import in_parallel


def test_answers_are_in_order_and_no_more_run_at_once_than_may():
    lock, now, most = threading.Lock(), 0, 0

    def work(number):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with lock:
            now -= 1
        return number * 2

    assert in_parallel(work, iter(range(20)), 4) == list(range(0, 40, 2))
    assert most == 4


def test_one_item_needs_no_thread():
    assert in_parallel(lambda _: threading.current_thread(), [1], 4) == [threading.current_thread()]
    assert in_parallel(lambda _: 1, [], 4) == []


def test_a_failure_leaves_out_what_has_not_begun():
    """Otherwise each of thousands would wait for a server that is away."""
    begun = []

    def work(number):
        begun.append(number)
        if number == 0:
            raise ValueError("no")
        time.sleep(0.05)

    with pytest.raises(ValueError, match="no"):
        in_parallel(work, range(1000), 2)
    assert len(begun) < 50
