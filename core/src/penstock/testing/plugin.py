"""What the kit adds to pytest: nothing is skipped unseen, and a report of what was declared and what was proven.

Loaded by pytest itself where penstock is installed (entry point ``pytest11``); does nothing without a suite.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_KIT = str(Path(__file__).parent)
#: By suite and capability: how many cases passed, and how many there were.
_Found = dict[str, dict[str, list[int]]]
_FOUND = pytest.StashKey[_Found]()
_DECLARED = pytest.StashKey[dict[str, frozenset[str]]]()


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
    capability = getattr(getattr(item, "function", None), "capability", None)
    if capability is None:
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
            if capability not in declared:
                terminalreporter.line(f"  ·  {capability}: not declared")
            elif failed:
                terminalreporter.line(
                    f"  ✗  {capability}: declared, {failed} of {passed + failed} cases fail", red=True
                )
            else:
                more = f", {skipped} do not apply" if skipped else ""
                terminalreporter.line(f"  ✓  {capability}: declared and proven by {passed} cases{more}", green=True)
