"""A plugin for pytest that runs tests again and again: as they are, and with one option ignored.

A test counts for an option if it passes as it is and fails with the option ignored. Tests that name the option are
tried first, those of the parsed options alone last: it is the effect that counts. A test that only misses an error
shows that a value is refused, not that a good one has an effect, and does not count unless a person has noted it: the
effect of some options is an error.

A test that starts processes of its own (Spark's workers parse options, too) can't be tried this way.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from option_tests.declared import Declared
from option_tests.ignoring import ignored

__all__ = ["Search"]

#: How a test fails that expects an error and gets none, or another.
_OF_A_REFUSAL = ("DID NOT RAISE", "Regex pattern did not match")
#: Cases of a test with parameters that are tried for an option.
_CASES = 3


class Search:
    """Finds a test for each of ``options``; ``known`` are tests to try first. The result is in ``found``."""

    def __init__(self, options: Sequence[Declared], known: dict[str, str], tries: int, budget_s: float) -> None:
        self.found: dict[str, str] = {}
        self._options = options
        self._known = known
        self._tries = tries
        self._budget_s = budget_s
        self._passes: dict[str, bool] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of one run of each test."""
        items = session.items
        texts = [(item, _text(item), _module_text(item)) for item in items]
        for number, one in enumerate(self._options):
            test = self._test_for(one, list(self._candidates(one, texts)))
            if test is not None:
                self.found[one.key] = test
            print(f"\r{number + 1}/{len(self._options)} {one.key}: {test or 'nothing found'}", flush=True)
        if items:
            # The last one's fixtures, those of the whole session included.
            runtestprotocol(items[0], log=False, nextitem=None)
        return True

    def _candidates(self, one: Declared, texts: Sequence[tuple[Any, str, str]]) -> Iterator[Any]:
        first = self._known.get(one.key)
        yield from (item for item, _, _ in texts if item.nodeid == first)
        spelled = "|".join(
            re.escape(name.rstrip("*").rstrip(".")).replace(r"\.", r"(\.|_|__)") for name in one.option.names
        )
        pattern = re.compile(rf"(?<![A-Za-z.])({spelled})(?![A-Za-z])", re.IGNORECASE)
        near = [item for item, own, _ in texts if pattern.search(own)]
        far = [item for item, own, module in texts if pattern.search(module) and not pattern.search(own)]
        other = "_sink_" if one.side == "source" else "_source_"
        # Files are named for their side; what names the other comes last.
        for group in (_few_of_each(near, pattern), _few_of_each(far, pattern)):
            yield from sorted(
                group,
                key=lambda item: ("test_options" in item.nodeid, other in item.nodeid, one.side not in item.nodeid),
            )

    def _test_for(self, one: Declared, candidates: Sequence[Any]) -> str | None:
        begun = time.monotonic()
        for item in dict.fromkeys(candidates[: self._tries]):
            if time.monotonic() - begun > self._budget_s:
                return None
            if item.nodeid not in self._passes:
                self._passes[item.nodeid] = not _failures(item)
            if not self._passes[item.nodeid]:
                continue
            with ignored(one):
                failures = _failures(item)
            refused = all(any(words in text for words in _OF_A_REFUSAL) for text in failures)
            if not failures or (refused and item.nodeid != self._known.get(one.key)):
                continue
            if not _failures(item):  # and not only because it was run once more
                return str(item.nodeid)
        return None


def _few_of_each(items: Sequence[Any], pattern: re.Pattern[str]) -> list[Any]:
    """Of a test with many parameters those that name the option, and otherwise a few."""
    by_function: dict[Any, list[Any]] = {}
    for item in items:
        by_function.setdefault(item.function, []).append(item)
    return [
        item
        for cases in by_function.values()
        for item in sorted(cases, key=lambda item: not pattern.search(_parameters(item)))[:_CASES]
    ]


def _failures(item: Any) -> list[str]:
    """Runs a test, and keeps the fixtures that others share. Returns why it failed; a test that is skipped fails."""
    if hasattr(item, "_initrequest"):
        item._initrequest()
    # Fixtures that the test before does not share with this one end now; of this one, only what it alone has.
    item.session._setupstate.teardown_exact(item)
    reports = runtestprotocol(item, log=False, nextitem=item.parent)
    return [str(report.longrepr) for report in reports if not report.passed]


def _text(item: Any) -> str:
    return inspect.getsource(item.function) + _parameters(item)


def _parameters(item: Any) -> str:
    return repr(getattr(getattr(item, "callspec", None), "params", ""))


def _module_text(item: Any) -> str:
    return inspect.getsource(item.module)
