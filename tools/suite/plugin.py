"""What the suite adds to pytest: tiers, balance, what a change can break, and a report at the end."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from suite import changed, tiers
from suite.budgets import Budgets
from suite.cores import Cores
from suite.durations import Durations
from suite.kinds import Kinds

ROOT = Path(__file__).resolve().parents[2]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of ``scripts/test``, beside pytest's."""
    group = parser.getgroup("suite", "the suite's tiers and report")
    group.addoption("--all", action="store_true", help="the second tier too: what takes long and finds the rare")
    group.addoption("--tiers", action="store_true", help="print what only --all runs, with the reasons; run nothing")
    group.addoption("--record", action="store_true", help="write the durations down, by which processes are balanced")
    group.addoption("--where", metavar="FILE", help="write down where the time goes: a line of JSON for each test")
    group.addoption(
        "--changed", metavar="COMMIT", nargs="?", const="main", help="only what a change since COMMIT (main) can break"
    )


def pytest_configure(config: pytest.Config) -> None:
    """The markers; and in the process that prints, the report."""
    config.addinivalue_line("markers", f"{tiers.MARKER}(reason): only scripts/test --all runs it")
    config.addinivalue_line("markers", "budget(seconds): how long the test may take before the report names it")
    if config.option.tiers:
        config.option.collectonly, config.option.verbose = True, -2
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(config), "suite-report")
        if config.pluginmanager.hasplugin("dsession"):
            config.pluginmanager.register(Balance(), "suite-balance")
    if config.option.where:
        config.pluginmanager.register(Where(Path(config.option.where)), "suite-where")


class Balance:
    """The scheduler, where tests run in several processes."""

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Ours, unless another was asked for."""
        from suite.balance import BalancedScheduling

        return BalancedScheduling(config, log, Durations.load()) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is not asked for; as deselected, so that the count shows."""
    run, left = tiers.select(items, config.invocation_params.args)
    if config.option.tiers:
        config.stash[_LEFT] = left
        items[:] = []
        return
    if config.option.all:
        run, left = list(items), []
    if config.option.changed:
        affected = changed.affected(ROOT, config.option.changed)
        run = [item for item in run if affected.includes(item.path)]
    if len(run) < len(items):
        kept = set(run)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = run


_LEFT: pytest.StashKey[list[pytest.Item]] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """The budget goes with the report to the process that prints."""
    report: Any = yield
    report.suite_budget = Budgets.of(item)
    return report


class Report:
    """What is printed at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._cores = Cores()
        self._budgets = Budgets()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Every phase of every test."""
        self._budgets.add(report)

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """The slowest, those over their budget, and the cores; or the tiers, if that was asked."""
        if config.option.tiers:
            for line in tiers.show(config.stash.get(_LEFT, [])):
                terminalreporter.line(line)
            return
        for line in self._budgets.report():
            terminalreporter.line(line)
        terminalreporter.line(self._cores.report())
        if config.option.record:
            Durations(self._budgets.by_function()).save()


class Where:
    """Writes a line for each test, in the process that runs it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kinds = Kinds()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        """Around setup, call and teardown."""
        self._kinds.install()
        self._kinds.take()
        result = yield
        line = json.dumps({"id": item.nodeid, "seconds": self._kinds.take()})
        with self._path.open("a") as file:
            file.write(line + "\n")
        return result
