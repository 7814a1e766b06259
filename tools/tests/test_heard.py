"""What a test finds in ``caplog``."""

from __future__ import annotations

import logging
import threading

from suite.heard import OwnThreads

LOG = logging.getLogger("penstock.tests.heard")


def _log_in_a_thread(text):
    """Returns a function that lets a thread that begins now log ``text``."""
    ask = threading.Event()
    thread = threading.Thread(target=lambda: (ask.wait(), LOG.warning(text)), daemon=True)
    thread.start()

    def log():
        ask.set()
        thread.join(10)

    return log


def test_older_threads_are_left_out(caplog):
    before = _log_in_a_thread("of a thread that was there before")
    own = OwnThreads()
    after = _log_in_a_thread("of a thread that began after it")
    caplog.handler.addFilter(own)
    try:
        before()
        after()
        LOG.warning("of this thread")
    finally:
        caplog.handler.removeFilter(own)
    assert [record.getMessage() for record in caplog.records] == ["of a thread that began after it", "of this thread"]


def test_every_test_has_a_filter_of_its_own(caplog):
    assert sum(isinstance(one, OwnThreads) for one in caplog.handler.filters) == 1
    LOG.warning("heard")
    assert caplog.messages == ["heard"]
