"""What a run of the kit has shown of a connector, capability by capability."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

import pytest

__all__ = ["Case", "Verdict", "does_not_apply", "not_tried"]

_NOT_TRIED = "not tried: "
_DOES_NOT_APPLY = "does not apply: "


def not_tried(what: str, missing: str) -> NoReturn:
    """Skips the case: it proves ``what``, and the author has left out what it needs. The verdict says so."""
    pytest.skip(f"{_NOT_TRIED}{what} (no {missing})")


def does_not_apply(why: str) -> NoReturn:
    """Skips the case: there is nothing to prove."""
    pytest.skip(f"{_DOES_NOT_APPLY}{why}")


@dataclass(frozen=True)
class Case:
    """The outcome of one case. ``declared`` are all capabilities of the connector. ``reason``: why it was skipped."""

    suite: str
    connector: str
    capability: str
    declared: tuple[str, ...]
    outcome: str
    reason: str = ""

    @property
    def not_tried(self) -> str:
        """What was not tried, and what is missing; empty for other outcomes."""
        return self.reason.partition(_NOT_TRIED)[2]


@dataclass
class _Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    #: What was not tried, in the order of the cases.
    missing: dict[str, None] = field(default_factory=dict)

    def add(self, case: Case) -> None:
        setattr(self, case.outcome, getattr(self, case.outcome) + 1)
        if case.not_tried:
            self.missing[case.not_tried] = None


class Verdict:
    """Collects cases, and says what they show: a suite at a time, and what no suite of the run has tried."""

    def __init__(self) -> None:
        self._suites: dict[str, dict[str, _Counts]] = {}
        self._declared: dict[str, tuple[str, ...]] = {}
        self._connectors: dict[str, tuple[str, ...]] = {}
        self._tried: dict[str, set[str]] = {}

    def add(self, case: Case) -> None:
        """Counts a case."""
        name = f"{case.suite} ({case.connector})"
        self._suites.setdefault(name, {}).setdefault(case.capability, _Counts()).add(case)
        self._declared[name] = self._connectors[case.connector] = case.declared
        self._tried.setdefault(case.connector, set()).add(case.capability)

    def sections(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Yields titles, each with its lines and their colours."""
        for name, capabilities in sorted(self._suites.items()):
            lines = [_line(one, counts, self._declared[name]) for one, counts in sorted(capabilities.items())]
            yield name, lines
        for connector, declared in sorted(self._connectors.items()):
            silent = sorted(set(declared) - self._tried[connector])
            if silent:
                text = "declared, not tried: no case of this run is about it"
                yield f"{connector}, in no suite", [(f"  ?  {one}: {text}", "yellow") for one in silent]


def _line(capability: str, counts: _Counts, declared: Collection[str]) -> tuple[str, str]:
    is_declared = capability in declared
    if counts.failed:
        said = "declared" if is_declared else "not declared"
        return f"  ✗  {capability}: {said}, {counts.failed} of {counts.passed + counts.failed} cases fail", "red"
    if not is_declared:
        refused = f", and refused cleanly ({counts.passed} cases)" if counts.passed else ""
        return f"  ·  {capability}: not declared{refused}", ""
    if counts.missing:
        missing = "; ".join(counts.missing)
        if not counts.passed:
            return f"  ?  {capability}: declared, not tried: {missing}", "yellow"
        return f"  ~  {capability}: declared, proven by {counts.passed} cases except for {missing}", "yellow"
    if not counts.passed:
        return f"  ?  {capability}: declared, not tried: {counts.skipped} cases do not apply", "yellow"
    more = f", {counts.skipped} do not apply" if counts.skipped else ""
    return f"  ✓  {capability}: declared and proven by {counts.passed} cases{more}", "green"
