"""The kit's time limit: what hangs fails, at the line where it stands."""

import contextlib
import signal
import threading
import time

import pytest

from penstock.testing._time_limit import time_limit

pytest_plugins = ["pytester"]


def hang():
    while True:
        with contextlib.suppress(Exception):  # what a connector that swallows everything does
            time.sleep(30)


def test_what_hangs_is_ended_though_it_catches_errors():
    began = time.monotonic()
    with pytest.raises(pytest.fail.Exception, match="hangs: a case has not ended"), time_limit(0.2, "a case"):
        hang()
    assert time.monotonic() - began < 20


def test_what_ends_in_time_is_left_alone():
    before = signal.getsignal(signal.SIGALRM)
    with time_limit(30, "a case"):
        pass
    assert signal.getsignal(signal.SIGALRM) is before


def test_the_limit_of_another_plugin_stays():
    before = signal.setitimer(signal.ITIMER_REAL, 600.0)
    try:
        with time_limit(30, "a case"):
            pass
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 500 < left <= 600
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)


def test_another_thread_has_no_limit():
    done = []

    def run():
        with time_limit(0.01, "a case"):
            time.sleep(0.1)
            done.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done == [True]


HANGING = """
import time
import pytest
from penstock.testing import SinkSuite, SinkTarget
from penstock.testing._samples.sink import FilesConnector

class Hanging(FilesConnector):
    def create_sink(self, options, schema):
        while True:
            time.sleep(0.1)

class TestHanging(SinkSuite):
    connector = Hanging
    case_seconds = 0.5

    @pytest.fixture
    def new_target(self, tmp_path):
        return lambda: SinkTarget({"path": str(tmp_path / "x")}, list)
"""


def test_a_connector_that_hangs_fails(pytester):
    pytester.makepyfile(HANGING)
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-k", "test_it_can_be_pickled")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*hangs: test_it_can_be_pickled has not ended within*"])
