"""What the kit adds to pytest: nothing is skipped unseen, and a report of what was declared and what was proven.

Loaded by pytest itself where penstock is installed (entry point ``pytest11``); does nothing without a suite.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.capabilities import capability_of

_KIT = str(Path(__file__).parent)
#: By suite and capability: how many cases passed, and how many there were.
_Found = dict[str, dict[str, list[int]]]
_FOUND = pytest.StashKey[_Found]()
_DECLARED = pytest.StashKey[dict[str, frozenset[str]]]()


@pytest.fixture(scope="session")
def penstock_spark() -> Iterator[Any]:
    """The session of the suites on Spark: two cores, tasks that are run again; or the one that is there already."""
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


def _suite(item: pytest.Item) -> Any:
    """The author's class, if the case is one of the kit's."""
    owner = getattr(item, "cls", None)
    return owner if owner is not None and getattr(owner, "is_penstock_suite", False) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """A skip that is not the kit's own is a failure, and so is an expected failure that passes."""
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
    _count(item, suite, report)
    return report


def _count(item: pytest.Item, suite: Any, report: Any) -> None:
    if report.when != "call" and not (report.failed or report.skipped):
        return
    name = f"{suite.__name__} ({suite.connector.__name__})"
    capability, refuses = capability_of(getattr(item, "function", None), suite)
    if capability is None or (refuses and report.skipped):
        return
    item.config.stash.setdefault(_DECLARED, {})[name] = suite.connector.capabilities
    counts = item.config.stash.setdefault(_FOUND, {}).setdefault(name, defaultdict(lambda: [0, 0, 0]))[capability]
    counts[0 if report.passed else 2 if report.skipped else 1] += 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line for each capability that the kit has cases for."""
    config = terminalreporter.config
    for name, capabilities in sorted(config.stash.get(_FOUND, {}).items()):
        terminalreporter.section(f"penstock conformance: {name}", sep="-")
        declared = config.stash[_DECLARED][name]
        for capability, (passed, failed, skipped) in sorted(capabilities.items()):
            if capability not in declared and not failed:
                refused = f", and refused cleanly ({passed} cases)" if passed else ""
                terminalreporter.line(f"  ·  {capability}: not declared{refused}")
            elif failed:
                terminalreporter.line(
                    f"  ✗  {capability}: {'declared' if capability in declared else 'not declared'}, "
                    f"{failed} of {passed + failed} cases fail",
                    red=True,
                )
            else:
                more = f", {skipped} do not apply" if skipped else ""
                terminalreporter.line(f"  ✓  {capability}: declared and proven by {passed} cases{more}", green=True)
