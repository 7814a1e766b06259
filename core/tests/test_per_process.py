from __future__ import annotations

import os
import threading

import pytest

from penstock.per_process import PerProcess


class Made:
    """Values that say when they end."""

    def __init__(self):
        self.made, self.ended = [], []

    def __call__(self, key):
        made = self

        class Value:
            name = key

            def __del__(self):
                made.ended.append((os.getpid(), key))

        self.made.append(key)
        return Value()


@pytest.fixture
def made():
    return Made()


def in_a_fork(call):
    """What ``call`` returns in a process that is forked off, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, repr(call()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        answer = file.read().decode()
    os.waitpid(child, 0)
    return answer


def test_a_value_is_made_once_for_each_key(made):
    kept = PerProcess(made)
    assert kept.get("a") is kept.get("a") is not kept.get("b")
    assert made.made == ["a", "b"]
    assert kept.keys() == ["a", "b"] and kept.forget("a").name == "a" and kept.forget("a") is None
    first = kept.get("a")
    assert first.name == "a" and made.made == ["a", "b", "a"]
    assert kept.forget("a", only=kept.get("b")) is None and kept.get("a") is first
    assert kept.forget("a", only=first) is first and kept.keys() == ["b"]


def test_threads_share_it():
    entered, barrier = [], threading.Barrier(8)

    def make(key):
        entered.append(key)
        return object()

    kept, found = PerProcess(make), []

    def ask():
        barrier.wait()
        found.append(kept.get("a"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert entered == ["a"] and len(set(map(id, found))) == 1


def test_what_can_not_be_made_is_not_kept():
    answers = [OSError("away"), "here"]

    def make(key):
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    kept = PerProcess(make)
    with pytest.raises(OSError, match="away"):
        kept.get("a")
    assert kept.get("a") == "here"


def test_the_one_that_was_not_asked_for_the_longest_makes_room(made):
    kept = PerProcess(made, most=2)
    for key in "abaca":
        kept.get(key)
    assert made.made == ["a", "b", "c"]
    kept.get("b")
    assert made.made == ["a", "b", "c", "b"]


def test_what_makes_room_is_closed_and_nobody_waits_for_that():
    closed, asked_meanwhile = [], []

    def close(value):
        closed.append(value)
        other = threading.Thread(target=lambda: asked_meanwhile.append(kept.get("c")))
        other.start()
        other.join(30)

    kept = PerProcess(str.upper, most=2, close=close)
    for key in "abc":
        kept.get(key)
    assert closed == ["A"] and asked_meanwhile == ["C"]
    kept.clear()
    assert closed == ["A", "B", "C"] and asked_meanwhile[1:] == ["C", "C"]
    assert kept.keys() == ["c"]


def test_a_fork_makes_its_own_and_leaves_its_parents_alone(made):
    kept = PerProcess(made)
    own = kept.get("a")
    answer = in_a_fork(lambda: (kept.get("a") is own, made.made, [key for pid, key in made.ended]))
    assert answer == repr((False, ["a", "a"], []))
    assert kept.get("a") is own


def test_a_fork_does_not_wait_for_a_thread_that_it_does_not_have(made):
    making, go_on = threading.Event(), threading.Event()

    def make(key):
        making.set()
        if key == "slow":
            go_on.wait(30)
        return made(key)

    kept = PerProcess(make)
    slow = threading.Thread(target=kept.get, args=("slow",))
    slow.start()
    making.wait()
    assert in_a_fork(lambda: kept.get("quick").name) == "'quick'"
    go_on.set()
    slow.join()
