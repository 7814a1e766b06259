"""A command that a test runs in its own process changes nothing for the tests after it."""

from __future__ import annotations

import signal

from penstock.cli._signals import Stops
from suite.signals import same_signals


def test_a_command_that_ignores_signals_at_its_end_leaves_them_as_they_were():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with same_signals():
        Stops().ignore()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
