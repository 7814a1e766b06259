"""What the kit adds to pytest: nothing is skipped unseen, and a report of what was declared and what was proven.

Loaded by pytest itself where penstock is installed (entry point ``pytest11``); does nothing without a suite.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.testing._capabilities import capability_of
from penstock.testing._time_limit import time_limit
from penstock.testing._verdict import NOTE, Case, Verdict

_KIT = str(Path(__file__).parent)


@pytest.fixture(scope="module")
def penstock_spark() -> Iterator[Any]:
    """Yields the session of the suites on Spark: two cores, tasks that are run again; or the one that is there already.

    A module's, since other modules of the same run may stop the session that they find.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # A JVM that lives for a minute spends much of it on optimizing code, and on threads of a collector for large heaps.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    existed = SparkSession.getActiveSession() is not None
    builder = SparkSession.builder.master("local[2,4]").appName("penstock conformance")
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC")
    spark = builder.getOrCreate()
    yield spark
    if not existed:
        spark.stop()


def pytest_configure(config: pytest.Config) -> None:
    """The mark of what starts a Spark session."""
    config.addinivalue_line("markers", "spark: starts a Spark session")
    config.pluginmanager.register(_Conformance(), "penstock-conformance")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Before the first test, so that its processes know of none."""
    if any(map(_suite, session.items)) and not session.config.option.collectonly:
        from penstock.testing import _processes

        _processes.begin()
        session.config.add_cleanup(_processes.end)


def _suite(item: pytest.Item) -> Any:
    """Returns the author's class, if the case is one of the kit's."""
    owner = getattr(item, "cls", None)
    return owner if owner is not None and getattr(owner, "is_penstock_suite", False) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Ends a case that hangs."""
    suite = _suite(item)
    with contextlib.nullcontext() if suite is None else time_limit(suite.case_seconds, item.name):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Ends a connector that does not close."""
    suite = _suite(item)
    with contextlib.nullcontext() if suite is None else time_limit(suite.case_seconds, f"what follows {item.name}"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Fails the report of a skip that is not the kit's own, and of an expected failure that passes."""
    report: Any = yield
    suite = _suite(item)
    if suite is None:
        return report
    if hasattr(report, "wasxfail"):
        if report.passed:
            report.outcome = "failed"
            report.longrepr = f"{item.name} was expected to fail ({report.wasxfail}) and passes: take the mark away"
    elif report.skipped and not str(report.longrepr[0]).startswith(_KIT):
        report.outcome = "failed"
        report.longrepr = (
            f"{item.name} was skipped ({report.longrepr[2]}). Cases of the kit are not for skipping: take the "
            "capability from the connector if it does not have it"
        )
    capability, refuses = capability_of(getattr(item, "function", None), suite)
    decides = report.when == "call" or report.failed or report.skipped
    if decides and capability is not None and not (refuses and report.skipped):
        # On the report, since the process that runs the case need not be the one that prints (pytest-xdist).
        reason = str(report.longrepr[2]) if report.skipped else ""
        declared = sorted(map(str, suite.connector.capabilities))
        names = [suite.__name__, suite.connector.__name__, str(capability)]
        note = dict(item.user_properties).get(NOTE, "")
        report.penstock_case = [*names, declared, report.outcome, reason, note]
    if report.failed and (advice := _advice(getattr(item, "function", None))):
        report.sections.append(("what this case is for", advice))
    return report


class _Conformance:
    """Collects what reports say, and prints it at the end."""

    def __init__(self) -> None:
        self._verdict = Verdict()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if hasattr(report, "penstock_case"):
            self._verdict.add(Case(*report.penstock_case))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for name, lines in self._verdict.sections():
            terminalreporter.section(f"penstock conformance: {name}", sep="-")
            for line, colour in lines:
                terminalreporter.line(line, **({colour: True} if colour else {}))


def _advice(case: Any) -> str:
    """Returns what a case says of itself, for the report of its failure."""
    text = inspect.getdoc(case) or ""
    return text if "If it fails:" in text else ""
