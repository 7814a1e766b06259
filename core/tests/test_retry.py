from __future__ import annotations

import threading
import time

import pytest

from penstock.errors import BadConfigurationError, RetriableError
from penstock.retry import retrying


class Call:
    """Fails with each of ``errors`` in turn, then returns."""

    def __init__(self, *errors):
        self.errors, self.calls = list(errors), 0

    def __call__(self):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.fixture
def pauses(monkeypatch):
    """Those of this thread; the others of the process sleep."""
    made, here, sleep = [], threading.current_thread(), time.sleep

    def pause(seconds):
        made.append(seconds) if threading.current_thread() is here else sleep(seconds)

    monkeypatch.setattr("tenacity.nap.time.sleep", pause)
    return made


def test_what_passes_is_tried_again(pauses):
    call, retries = Call(RetriableError("busy"), OSError("gone"), RetriableError("busy")), []
    assert retrying(call, 60, also=(OSError,), on_retry=lambda: retries.append(call.calls)) == "done"
    assert retries == [1, 2, 3] and len(pauses) == 3


@pytest.mark.parametrize("error", [BadConfigurationError("wrong"), OSError("gone"), KeyboardInterrupt()])
def test_what_does_not_pass_is_raised_at_once(pauses, error):
    call = Call(error)
    with pytest.raises(type(error)):
        retrying(call, 60)
    assert call.calls == 1 and not pauses


def test_the_last_error_is_raised_once_the_time_is_over():
    call = Call(*(RetriableError(f"busy {number}") for number in range(1000)))
    with pytest.raises(RetriableError) as raised:
        retrying(call, 0.3)
    assert str(raised.value) == f"busy {call.calls - 1}" and call.calls > 1


def test_pauses_grow_to_five_seconds(pauses):
    assert retrying(Call(*[RetriableError("busy")] * 40), 600) == "done"
    assert max(pauses[:2]) <= 0.1 and 1 < max(pauses) <= 5
