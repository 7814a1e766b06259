"""What the kit adds to pytest: nothing is skipped unseen, and a report of what was declared and what was proven.

Loaded by pytest itself where penstock is installed (entry point ``pytest11``); does nothing without a suite.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.testing._capabilities import capability_of

_KIT = str(Path(__file__).parent)


@pytest.fixture(scope="module")
def penstock_spark() -> Iterator[Any]:
    """Yields the session of the suites on Spark: two cores, tasks that are run again; or the one that is there already.

    A module's, since other modules of the same run may stop the session that they find.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
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


def _suite(item: pytest.Item) -> Any:
    """Returns the author's class, if the case is one of the kit's."""
    owner = getattr(item, "cls", None)
    return owner if owner is not None and getattr(owner, "is_penstock_suite", False) else None


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
        name = f"{suite.__name__} ({suite.connector.__name__})"
        report.penstock_case = [name, str(capability), capability in suite.connector.capabilities]
    return report


@dataclass
class _Counts:
    declared: bool
    passed: int = 0
    failed: int = 0
    skipped: int = 0


class _Conformance:
    """Collects what reports say, and prints it at the end: by suite, a line for each capability."""

    def __init__(self) -> None:
        self._suites: dict[str, dict[str, _Counts]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not hasattr(report, "penstock_case"):
            return
        name, capability, declared = report.penstock_case
        counts = self._suites.setdefault(name, {}).setdefault(capability, _Counts(declared))
        outcome = report.outcome
        setattr(counts, outcome, getattr(counts, outcome) + 1)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for name, capabilities in sorted(self._suites.items()):
            terminalreporter.section(f"penstock conformance: {name}", sep="-")
            for capability, counts in sorted(capabilities.items()):
                line, colour = _line(capability, counts)
                terminalreporter.line(line, **colour)


def _line(capability: str, counts: _Counts) -> tuple[str, dict[str, bool]]:
    if counts.failed:
        declared = "declared" if counts.declared else "not declared"
        of = counts.passed + counts.failed
        return f"  ✗  {capability}: {declared}, {counts.failed} of {of} cases fail", {"red": True}
    if not counts.declared:
        refused = f", and refused cleanly ({counts.passed} cases)" if counts.passed else ""
        return f"  ·  {capability}: not declared{refused}", {}
    more = f", {counts.skipped} do not apply" if counts.skipped else ""
    return f"  ✓  {capability}: declared and proven by {counts.passed} cases{more}", {"green": True}
