"""What a run of the kit has shown of a connector, capability by capability."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

import pytest

__all__ = ["NOTE", "Case", "Verdict", "does_not_apply", "not_tried"]

#: Name of the property in which a case writes what the verdict is to say of it (pytest's ``record_property``).
NOTE = "penstock note"
_NOT_TRIED = "not tried: "
_DOES_NOT_APPLY = "does not apply: "
_WITHOUT = ", without "


def not_tried(what: str, missing: str) -> NoReturn:
    """Skips the case: it proves ``what``, and the author has left out what it needs. The verdict says so."""
    pytest.skip(f"{_NOT_TRIED}{what} (no {missing})")


def does_not_apply(why: str, left_out: str = "") -> NoReturn:
    """Skips the case: there is nothing to prove. If that follows from what the author has left out, the verdict names
    it.
    """
    pytest.skip(f"{_DOES_NOT_APPLY}{why}" + (f"{_WITHOUT}{left_out}" if left_out else ""))


@dataclass(frozen=True)
class Case:
    """The outcome of one case. ``declared`` are all capabilities of the connector. ``reason``: why it was skipped.
    ``note``: what to know of a case that passed.
    """

    suite: str
    connector: str
    capability: str
    declared: tuple[str, ...]
    outcome: str
    reason: str = ""
    note: str = ""

    @property
    def not_tried(self) -> str:
        """What was not tried, and what is missing; empty for other outcomes."""
        return self.reason.partition(_NOT_TRIED)[2]

    @property
    def left_out(self) -> str:
        """What the author has left out, so that the case does not apply; empty if it is for another reason."""
        return self.reason.partition(_DOES_NOT_APPLY)[2].partition(_WITHOUT)[2]


@dataclass
class _Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    #: What was not tried, in the order of the cases.
    missing: dict[str, None] = field(default_factory=dict)
    left_out: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def add(self, case: Case) -> None:
        setattr(self, case.outcome, getattr(self, case.outcome) + 1)
        if case.not_tried:
            self.missing[case.not_tried] = None
        if case.left_out:
            self.left_out[case.left_out] = None
        if case.note:
            self.notes[case.note] = None


class Verdict:
    """Collects cases, and says what they show: a suite at a time, and what no suite of the run has tried."""

    def __init__(self) -> None:
        #: By suite and connector, then by capability.
        self._suites: dict[tuple[str, str], dict[str, _Counts]] = {}
        #: By connector.
        self._declared: dict[str, tuple[str, ...]] = {}

    def add(self, case: Case) -> None:
        """Counts a case."""
        suite = self._suites.setdefault((case.suite, case.connector), {})
        suite.setdefault(case.capability, _Counts()).add(case)
        self._declared[case.connector] = case.declared

    def sections(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Yields titles, each with its lines and their colours."""
        for (suite, connector), capabilities in sorted(self._suites.items()):
            declared = self._declared[connector]
            lines = [_line(one, counts, declared) for one, counts in sorted(capabilities.items())]
            yield f"{suite} ({connector})", lines
        for connector, declared in sorted(self._declared.items()):
            tried = [tested for (_, of), tested in self._suites.items() if of == connector]
            silent = sorted(set(declared).difference(*tried))
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
    notes = "".join(f"; {note}" for note in counts.notes)
    if counts.missing:
        missing = "; ".join(counts.missing)
        if not counts.passed:
            return f"  ?  {capability}: declared, not tried: {missing}", "yellow"
        return f"  ~  {capability}: declared, proven by {counts.passed} cases except for {missing}{notes}", "yellow"
    if not counts.passed:
        return f"  ?  {capability}: declared, not tried: {counts.skipped} cases do not apply", "yellow"
    more = f", {counts.skipped} do not apply" if counts.skipped else ""
    if counts.left_out:
        more += f" (without {', '.join(counts.left_out)})"
    return f"  ✓  {capability}: declared and proven by {counts.passed} cases{more}{notes}", "green"
