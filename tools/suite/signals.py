"""What a command of ours leaves behind in the process of the tests, which it takes for its own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["same_signals"]

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def same_signals() -> Iterator[None]:
    """Puts the handlers of SIGINT and SIGTERM back at the end.

    At its end ``penstock run`` ignores both. A server that a later test starts would inherit that, and be killed only
    after the 20 seconds that it is given to end in good order.
    """
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _same_signals() -> Iterator[None]:
    with same_signals():
        yield
