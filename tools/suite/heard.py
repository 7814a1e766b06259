"""What a test finds in ``caplog``: the messages of what it began itself."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterator

import pytest

__all__ = ["OwnThreads", "caplog"]

_OWN: pytest.StashKey[OwnThreads] = pytest.StashKey()


class OwnThreads(logging.Filter):
    """Lets pass what the thread that makes this filter logs, and every thread that begins after it was made.

    A process runs many tests, and clients of earlier ones live on: their threads renew leases and look for brokers that
    have ended. What they log has nothing to do with the test that runs by then.
    """

    def __init__(self) -> None:
        super().__init__()
        self._older = weakref.WeakSet(set(threading.enumerate()) - {threading.current_thread()})

    def filter(self, record: logging.LogRecord) -> bool:
        """A handler asks in the thread that logs."""
        return threading.current_thread() not in self._older


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the fixtures of the test: threads that they begin are its own."""
    item.stash[_OWN] = OwnThreads()


@pytest.fixture
def caplog(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Pytest's, without what threads log that were there before this test."""
    own = request.node.stash[_OWN]
    caplog.handler.addFilter(own)
    yield caplog
    caplog.handler.removeFilter(own)
