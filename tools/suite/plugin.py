"""What the suite adds to pytest: tiers, balance, what a change can break, and a report at the end."""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from suite import changed, cover, runs, scratch, tiers
from suite.balance import BalancedScheduling, Units
from suite.budgets import Budgets
from suite.cores import Cores
from suite.durations import Durations
from suite.journal import Journal, tree_state
from suite.kinds import Kinds
from suite.open_files import LeftOpen, OpenFiles

ROOT = Path(__file__).resolve().parents[2]
#: Characters of a failure that are printed while tests run; all of it is at the end.
_SAID = 4000
_LEFT: pytest.StashKey[list[pytest.Item]] = pytest.StashKey()
_OPEN: pytest.StashKey[OpenFiles] = pytest.StashKey()
_JOURNAL: pytest.StashKey[Journal] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of ``scripts/test``, beside pytest's."""
    group = parser.getgroup("suite", "the suite's tiers and report")
    group.addoption("--all", action="store_true", help="the second tier too: what takes long and finds the rare")
    group.addoption("--tiers", action="store_true", help="print what only --all runs, with the reasons; run nothing")
    group.addoption("--record", action="store_true", help="write the durations down, by which processes are balanced")
    group.addoption("--resume", action="store_true", help="leave out what passed in the run of this very tree before")
    group.addoption("--where", metavar="FILE", help="write down where the time goes: a line of JSON for each test")
    group.addoption("--reversed", action="store_true", help="the last test first: finds what needs the test before it")
    group.addoption(
        "--changed", metavar="COMMIT", nargs="?", const="main", help="only what a change since COMMIT (main) can break"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The markers; and in the process that prints, the report."""
    # To rewrite the assertions of a test file takes longer than all else before its first test: what was rewritten is
    # kept, whatever PYTHONDONTWRITEBYTECODE says to other processes.
    sys.dont_write_bytecode = False
    config.addinivalue_line("markers", f"{tiers.MARKER}(reason): only scripts/test --all runs it")
    config.addinivalue_line("markers", "budget(seconds): how long the test may take before the report names it")
    config.stash[_OPEN] = OpenFiles()
    if config.option.tiers:
        config.option.collectonly, config.option.verbose = True, -2
    if not hasattr(config, "workerinput"):
        if config.option.resume and not config.option.all:
            raise pytest.UsageError("--resume continues a run of --all: give both")
        if config.option.all:
            path = config.rootpath / ".cache" / "suite-run.jsonl"
            config.stash[_JOURNAL] = Journal(path, tree_state(config.rootpath), resumes=config.option.resume)
        config.pluginmanager.register(Report(config), "suite-report")
        if config.getoption("numprocesses", None):
            config.pluginmanager.register(Balance(), "suite-balance")
    if config.option.where:
        config.pluginmanager.register(Where(Path(config.option.where)), "suite-where")


def _done(config: pytest.Config) -> set[str]:
    """The tests that an earlier piece of this run has done."""
    if hasattr(config, "workerinput"):
        return set(config.workerinput["suite_done"])
    return set(config.stash[_JOURNAL].done) if _JOURNAL in config.stash else set()


class Balance:
    """The scheduler, where tests run in several processes, and what these must know."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """A process is about to be started."""
        node.workerinput["suite_done"] = list(_done(node.config))

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> BalancedScheduling:
        """Ours."""
        return BalancedScheduling(config, log, Durations.load())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is not asked for."""
    run, left = tiers.select(items, config.invocation_params.args)
    if config.option.all:
        run, left = list(items), []
    else:
        tiers.shorten(run)
    config.stash[_LEFT] = left
    if config.option.tiers:
        run = []
    if config.option.changed:
        affected = changed.affected(ROOT, config.option.changed)
        run = [item for item in run if affected.includes(item.path)]
    done = _done(config)
    run = [item for item in run if item.nodeid not in done]
    if config.option.reversed:
        items.reverse()
        run.reverse()
    if len(run) < len(items):
        kept = set(run)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = run


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Excludes the objects of ten thousand tests from each later collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Where coverage is measured, it is noted by tier."""
    if cover.VARIABLE in os.environ:
        import coverage

        measured = coverage.Coverage.current()
        if measured is not None:
            measured.switch_context(tiers.MARKER if tiers.reason_of(item) else "")
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """The budget, and after the last phase what is open, go with the report to the process that prints."""
    report: Any = yield
    report.suite_budget = Budgets.of(item)
    if call.when == "teardown":
        report.suite_opened = item.config.stash[_OPEN].more()
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """How many tests were left for ``--all`` goes to the process that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["suite_left"] = len(session.config.stash.get(_LEFT, []))


class Report:
    """What is printed: at the start what will be run and how long that takes, at the end where the time went."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._journal = config.stash.get(_JOURNAL, None)
        self._cores = Cores()
        self._budgets = Budgets()
        self._left_open = LeftOpen()
        self._announced = False
        self._left: int | None = None
        self._keeps_files = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tests in this process are about to run."""
        if session.items and not self._config.option.collectonly:
            self._announce([item.nodeid for item in session.items], 1)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """Tests in other processes are about to run; all of them have collected the same."""
        self._announce(ids, self._config.getoption("numprocesses"))

    def _announce(self, nodeids: Sequence[str], processes: int) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if self._announced or reporter is None:
            return
        self._announced = True
        reporter.ensure_newline()
        done = len(_done(self._config))
        if done:
            reporter.write_line(f"{done} tests have passed or were skipped before, in this very tree")
        reporter.write_line(_plan(nodeids, processes))
        from suite import jars  # loads the connectors, which most processes that load this module need not

        jars.fetch(nodeids, reporter.write_line)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A process has ended."""
        self._left = getattr(node, "workeroutput", {}).get("suite_left", self._left)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Every phase of every test. What failed is said at once: a run that is ended would take it along."""
        self._budgets.add(report)
        self._left_open.add(report)
        if self._journal is not None:
            self._journal.add(report)
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            said = str(report.longrepr if crash is None else crash.message)
            reporter.ensure_newline()
            reporter.write_line(f"{report.nodeid}: {said[:_SAID]}")

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
        """The slowest, those over their budget, what was left, and the cores; or the tiers, if that was asked."""
        left = config.stash.get(_LEFT, [])
        if config.option.tiers:
            for line in tiers.show(left):
                terminalreporter.line(line)
            return
        for line in [*self._budgets.report(), *self._left_open.report()]:
            terminalreporter.line(line)
        count = len(left) if self._left is None else self._left
        if count:
            terminalreporter.line(f"{count} more tests run with --all; scripts/test --tiers says which, and why")
        terminalreporter.line(self._cores.report())
        if scratch.own() and exitstatus == pytest.ExitCode.TESTS_FAILED:
            self._keeps_files = True
            terminalreporter.line(f"the tests' files are in {scratch.own()}, until the next run")
        if config.option.record:
            self._record(terminalreporter.stats)

    def pytest_unconfigure(self) -> None:
        """Everything has ended that writes into the directory in memory."""
        if (folder := scratch.own()) and not self._keeps_files:
            shutil.rmtree(folder, ignore_errors=True)

    def _record(self, stats: dict[str, list[Any]]) -> None:
        option = self._config.option
        named = self._config.args_source is pytest.Config.ArgsSource.ARGS
        complete = option.all and not (named or option.keyword or option.markexpr or option.changed)
        seconds = self._budgets.seconds
        if self._journal is not None:
            seconds = {**self._journal.seconds, **seconds}
            if complete:  # first: what is saved next makes the tree another than the one that was tested
                runs.record(self._journal.counts(stats), self._journal.minutes + self._cores.minutes)
        Durations.load().renewed(seconds, complete=complete).save()


def _plan(nodeids: Sequence[str], processes: int) -> str:
    minutes = Units(nodeids, Durations.load()).total_s / processes / 60
    takes = f"about {minutes:.0f} minutes" if minutes >= 1.5 else "about a minute" if minutes > 0.5 else "seconds"
    where = f"{processes} processes" if processes > 1 else "one process"
    return f"{len(nodeids)} tests in {where}: {takes} on a machine with two cores"


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
