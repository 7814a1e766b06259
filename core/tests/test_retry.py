from __future__ import annotations

import errno
import logging
import pickle

import pytest

from penstock.errors import BadConfigurationError, DataLostError, RetriableError, RetriesExhaustedError
from penstock.metrics import Metrics
from penstock.retry import NO_RETRIES, Retries, RetryPolicy, may_pass
from penstock.system import System, use

ONE_MINUTE = RetryPolicy(60)


class Call:
    """Fails with each of ``errors`` in turn, then returns."""

    def __init__(self, *errors):
        self.errors, self.calls = list(errors), 0

    def __call__(self):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


class Clock(System):
    """Time passes only where someone sleeps."""

    def __init__(self):
        self.now, self.pauses = 1000.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.pauses.append(seconds)


@pytest.fixture(autouse=True)
def clock():
    clock = Clock()
    use(clock)
    yield clock
    use(None)


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.WARNING, "penstock.retry")
    return caplog


def test_what_passes_is_tried_again(clock):
    metrics = Metrics()
    call = Call(RetriableError("busy"), ConnectionResetError("gone"), RetriableError("busy"))
    assert ONE_MINUTE.call(call, "asking", metrics) == "done"
    assert call.calls == 4 and len(clock.pauses) == 3
    assert metrics.snapshot() == {"retries": 3, "retry_ms": pytest.approx(1000 * sum(clock.pauses), abs=2)}


@pytest.mark.parametrize(
    "error",
    [
        BadConfigurationError("wrong"),
        DataLostError("gone"),
        KeyboardInterrupt(),
        ValueError("a bug"),
        FileNotFoundError(errno.ENOENT, "no such file"),
        PermissionError(errno.EACCES, "not allowed"),
        OSError(errno.ENOSPC, "no space left on device"),
        RetriesExhaustedError("tried for two minutes elsewhere"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_does_not_pass_is_raised_at_once(clock, error):
    call = Call(error)
    with pytest.raises(type(error)) as raised:
        ONE_MINUTE.call(call)
    assert raised.value is error and call.calls == 1 and not clock.pauses


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (RetriableError("busy"), True),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), True),
        (TimeoutError("slow"), True),
        (OSError(errno.ESTALE, "stale file handle"), True),
        (OSError("what a library says"), True),
        (OSError(errno.ENAMETOOLONG, "too long"), False),
        (IsADirectoryError(errno.EISDIR, "a directory"), False),
    ],
    ids=repr,
)
def test_which_errors_may_pass(error, passes):
    assert may_pass(error) is passes


def test_no_time_is_no_second_try(clock):
    call = Call(RetriableError("busy"))
    with pytest.raises(RetriableError, match=r"^busy(\n|$)"):
        NO_RETRIES.call(call)
    assert call.calls == 1 and not clock.pauses


def test_the_error_at_the_end_says_what_was_tried(clock):
    call = Call(*(RetriableError("node 10.0.0.1 is down") for _ in range(1000)))
    with pytest.raises(RetriesExhaustedError) as raised:
        ONE_MINUTE.call(call, "reading split 3")
    assert str(raised.value) == (
        f"reading split 3: node 10.0.0.1 is down; tried {call.calls} times in 60s (retryTimeout=60s)"
    )
    assert isinstance(raised.value.__cause__, RetriableError) and clock.now == 1060


def test_an_outer_policy_does_not_try_what_an_inner_one_has_tried(clock):
    inner = lambda: RetryPolicy(10).call(Call(*[RetriableError("down")] * 1000))  # noqa: E731
    with pytest.raises(RetriesExhaustedError):
        ONE_MINUTE.call(inner)
    assert clock.now == 1010


def test_pauses_grow_to_five_seconds(clock):
    assert RetryPolicy(600).call(Call(*[RetriableError("busy")] * 40)) == "done"
    assert max(clock.pauses[:1]) <= 0.1 and 2.5 <= max(clock.pauses) <= 5


def test_it_is_said_at_first_then_every_ten_seconds_and_at_the_end(clock, said):
    ONE_MINUTE.call(Call(*[RetriableError("node a is down")] * 14), "planning")
    lasted = clock.now - 1000
    first, *more, last = said.messages
    assert first == "planning: node a is down; trying again for up to 60s (retryTimeout)"
    assert lasted // 15 - 1 <= len(more) <= lasted // 10  # at the first pause of up to 5 s after the ten
    assert all(one.startswith("planning: node a is down; this has lasted for ") for one in more)
    assert last == f"planning: it works again, after {lasted:.0f}s and 14 more tries"


def test_nothing_is_said_of_what_works(said):
    assert ONE_MINUTE.call(Call()) == "done" and not said.messages


def test_the_time_starts_over_once_something_worked(clock):
    retries = Retries(ONE_MINUTE)
    for _ in range(5):
        retries.failed(RetriableError("busy"))
        clock.now += 50
        retries.worked()


def test_a_policy_goes_to_the_tasks():
    assert pickle.loads(pickle.dumps(ONE_MINUTE)) == ONE_MINUTE


def test_what_is_said_is_one_line(said):
    ONE_MINUTE.call(Call(RetriableError("node a is down\nNothing is lost: try again"), TimeoutError()), "planning")
    assert said.messages[0] == "planning: node a is down; trying again for up to 60s (retryTimeout)"
    said.clear()
    ONE_MINUTE.call(Call(TimeoutError()), "planning")
    assert said.messages[0] == "planning: TimeoutError(); trying again for up to 60s (retryTimeout)"


def test_of_several_calls_each_has_its_own_time(clock, said):
    metrics = Metrics()
    retries = Retries(ONE_MINUTE, metrics=metrics)
    began = clock.now
    retries.failed(RetriableError("node a is down"), since=began)
    clock.now += 59
    retries.failed(RetriableError("node b is down"), since=clock.now - 5)  # another call
    clock.now += 2
    assert retries.failed(RetriableError("node b is down"), since=clock.now - 7, failures=1) > 0
    with pytest.raises(RetriesExhaustedError, match="node a is down; tried 3 times in 61s"):
        retries.failed(RetriableError("node a is down"), since=began, failures=2)
    assert said.messages == [
        "node a is down; trying again for up to 60s (retryTimeout)",
        "node b is down; this has lasted for 59s",
    ]
    retries.worked()
    assert metrics.snapshot() == {"retries": 3, "retry_ms": 61_000}
