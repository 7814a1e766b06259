"""Limits ``caplog`` to the messages of the threads that a test starts, and of its own."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterator

import pytest

__all__ = ["OwnThreads", "caplog"]

_OWN: pytest.StashKey[OwnThreads] = pytest.StashKey()


class OwnThreads(logging.Filter):
    """Passes what the thread that makes this filter logs, and what every thread that starts later logs.

    A process runs many tests, and clients of earlier ones live on: their threads renew leases and look for brokers that
    have ended. What they log has nothing to do with the current test.
    """

    def __init__(self) -> None:
        super().__init__()
        self._older = weakref.WeakSet(set(threading.enumerate()) - {threading.current_thread()})

    def filter(self, record: logging.LogRecord) -> bool:
        """A handler asks in the thread that logs."""
        return threading.current_thread() not in self._older


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Runs before the fixtures of the test: threads that they start are its own."""
    item.stash[_OWN] = OwnThreads()


@pytest.fixture
def caplog(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Pytest's, without the messages of threads that are older than the test."""
    own = request.node.stash[_OWN]
    caplog.handler.addFilter(own)
    yield caplog
    caplog.handler.removeFilter(own)
