from __future__ import annotations

import os
import threading
import time

import pytest

import penstock.per_process._keeper as keeper
from penstock.per_process import IdlePool, PerProcess


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
    assert kept.keys() == ["a", "b"]
    kept.forget("a")
    kept.forget("a")
    assert kept.keys() == ["b"] and kept.get("a").name == "a" and made.made == ["a", "b", "a"]


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


class Connection:
    """A value that knows whether it was closed, and when the test may continue."""

    def __init__(self, key):
        self.key = key
        self.closed = threading.Event()

    def close(self):
        self.closed.set()


def connections(**settings):
    return PerProcess(Connection, close=Connection.close, **settings)


def test_what_is_in_use_is_closed_by_its_last_user():
    kept = connections()
    first = kept.acquire("a")
    with kept.using("a") as second:
        assert second is first and kept._entries["a"].users == 2
        kept.forget("a")
        kept.release(first)
        assert not first.closed.is_set() and kept.acquire("a") is not first
    assert first.closed.is_set()
    kept.release(first)  # twice: nothing happens


def test_the_one_that_makes_room_is_rather_one_that_nobody_uses():
    kept = connections(most=2)
    used, idle = kept.acquire("used"), kept.get("idle")
    kept.get("new")
    assert idle.closed.is_set() and kept.keys() == ["used", "new"]
    new = kept.acquire("new")
    third = kept.acquire("third")
    assert kept.keys() == ["new", "third"] and not used.closed.is_set()
    for one in (used, new, third):
        kept.release(one)
    assert used.closed.is_set() and not third.closed.is_set()


def test_what_nobody_has_used_for_a_while_is_closed():
    kept = connections(idle_s=0.05)
    used, idle = kept.acquire("used"), kept.get("idle")
    assert idle.closed.wait(60)
    assert kept.keys() == ["used"] and not used.closed.is_set()
    kept.release(used)
    assert used.closed.wait(60)


def test_the_timer_waits_for_what_was_used_last(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(keeper.time, "monotonic", lambda: now[0])
    kept = connections(idle_s=60)
    first, second = kept.get("a"), kept.get("b")
    now[0] = 150.0
    kept.get("b")
    now[0] = 165.0
    kept._sweep()
    assert first.closed.is_set() and not second.closed.is_set() and kept._timer.is_alive()
    now[0] = 210.0
    kept._sweep()
    assert second.closed.is_set() and kept.keys() == []


def test_at_once():
    kept = connections(idle_s=0)
    first = kept.acquire("a")
    assert kept.acquire("a") is first
    kept.release(first)
    assert not first.closed.is_set()
    kept.release(first)
    assert first.closed.is_set() and kept.acquire("a") is not first


def test_what_is_broken_is_not_handed_out():
    broken = set()
    kept = connections(usable=lambda value: value not in broken)
    first = kept.acquire("a")
    broken.add(first)
    second = kept.acquire("a")
    assert second is not first and not first.closed.is_set()
    kept.release(first)
    assert first.closed.is_set()
    kept.release(second, useful=False)
    assert second.closed.is_set()


def old(path, text, age_s=60):
    """Writes a file that was changed a while ago."""
    path.write_text(text)
    past = time.time() - age_s
    os.utime(path, (past, past))


@pytest.mark.parametrize("cache", ["shared", "lent"])
def test_renewed_files_are_noticed(tmp_path, cache):
    certificate = tmp_path / "certificate.pem"
    old(certificate, "first")
    files = {"files": lambda key: [str(certificate)]}
    kept = connections(**files) if cache == "shared" else pool(**files)
    first = kept.acquire("a")
    kept.release(first)
    again = kept.acquire("a")
    assert again is first
    kept.release(first)
    certificate.write_text("second, being written")
    assert kept.acquire("a") is first, "the key may not be there yet"
    kept.release(first)
    certificate.unlink()
    assert kept.acquire("a") is first, "nothing to make another with"
    kept.release(first)
    old(certificate, "second", age_s=30)
    second = kept.acquire("a")
    assert second is not first and first.closed.is_set()
    kept.release(second)
    assert kept.acquire("a") is second


def test_files_that_were_written_just_now_are_known_a_while_later(tmp_path):
    certificate = tmp_path / "certificate.pem"
    certificate.write_text("new")
    kept = connections(files=lambda key: [str(certificate)])
    first = kept.get("a")
    old(certificate, "new", age_s=60)
    assert kept.get("a") is first
    old(certificate, "renewed", age_s=30)
    assert kept.get("a") is not first and first.closed.is_set()


def test_other_keys_do_not_wait_for_one_that_takes_long():
    go_on, asked = threading.Event(), []

    def make(key):
        assert key == "quick" or go_on.wait(60)
        asked.append(key)
        return Connection(key)

    kept = PerProcess(make)
    threads = [threading.Thread(target=kept.get, args=("slow",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert kept.get("quick").key == "quick" and asked == ["quick"]
    go_on.set()
    for thread in threads:
        thread.join()
    assert asked == ["quick", "slow"]


def test_a_value_that_can_not_be_closed_stops_nobody(caplog):
    def close(value):
        raise OSError("the network is away")

    kept = PerProcess(Connection, close=close, most=1)
    kept.get("a")
    assert kept.get("b").key == "b"
    assert "Connection could not be closed: the network is away" in caplog.text


def test_a_fork_does_not_close_what_its_parent_uses():
    kept = connections()
    own = kept.acquire("a")

    def in_child():
        kept.release(own)
        kept.clear()
        other = kept.acquire("a")
        kept.release(other)
        return own.closed.is_set(), other is own, len(kept._in_use)

    assert in_a_fork(in_child) == repr((False, False, 0))
    kept.release(own)


# --- what one user has at a time --------------------------------------------------------------------------------------


def pool(**settings):
    return IdlePool(Connection, close=Connection.close, **{"most": 2, **settings})


def test_a_value_is_lent_to_one_user_at_a_time():
    lent = pool()
    first, second = lent.acquire("a"), lent.acquire("a")
    assert first is not second
    lent.release(first)
    assert lent.acquire("b") is not first
    assert lent.acquire("a") is first


def test_the_one_that_was_idle_for_the_longest_is_closed():
    lent = pool()
    values = [lent.acquire("a") for _ in range(3)]
    for value in values:
        lent.release(value)
    assert values[0].closed.is_set() and lent.idle() == values[1:]
    assert lent.acquire("a") is values[2]
    lent.clear()
    assert values[1].closed.is_set() and not values[2].closed.is_set() and lent.idle() == []


def test_idle_values_leave():
    lent = pool(idle_s=0.05)
    value = lent.acquire("a")
    lent.release(value)
    assert value.closed.wait(60)
    assert lent.acquire("a") is not value


def test_a_discarded_value_is_not_lent_again():
    lent = pool()
    value = lent.acquire("a")
    lent.discard(value)
    lent.release(value)
    assert lent.idle() == [] and not value.closed.is_set()


def test_a_fork_does_not_get_what_its_parent_lends():
    lent = pool()
    idle, out = lent.acquire("a"), lent.acquire("a")
    lent.release(idle)

    def in_child():
        lent.release(out)
        return lent.idle(), lent.acquire("a") in (idle, out), idle.closed.is_set()

    assert in_a_fork(in_child) == repr(([], False, False))
    assert lent.acquire("a") is idle
