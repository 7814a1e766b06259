"""Two tiers: what every change must pass, and what only ``scripts/test --all`` runs beside it.

A test is in the second tier because of its marker, whose argument is the reason::

    @pytest.mark.exhaustive("every step of the protocol; test_driver_killed_once is the witness")

A test that is named by its id (``scripts/test path/to/test_x.py::test_y``) runs in any case.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

__all__ = ["MARKER", "reason_of", "select", "shorten", "show"]

MARKER = "exhaustive"
#: For how long the kit kills processes at lines in the first tier; its default in the second.
_KILL_S = 1.0


def reason_of(item: pytest.Item) -> str | None:
    """Why the test is in the second tier; None if it is in the first. Raises UsageError if the marker gives none."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return None
    if len(marker.args) != 1 or not isinstance(marker.args[0], str) or marker.kwargs:
        raise pytest.UsageError(f"{item.nodeid}: the marker '{MARKER}' takes the reason as its only argument")
    reason: str = marker.args[0]
    return reason


def select(items: list[pytest.Item], named: Iterable[str]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The items to run without ``--all``, and those left for it. ``named`` are the arguments of the command line."""
    ids = [name for name in named if "::" in name]
    run: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        is_named = any(item.nodeid.startswith(name) for name in ids)
        (run if is_named or reason_of(item) is None else left).append(item)
    return run, left


def shorten(items: Iterable[pytest.Item]) -> None:
    """Suites of the kit kill at random lines, each run in another order, for a shorter time than with ``--all``."""
    for suite in {item.cls for item in items if isinstance(item, pytest.Function) and item.cls is not None}:
        if hasattr(suite, "kill_seconds"):
            suite.kill_seconds = min(suite.kill_seconds, _KILL_S)


def show(left: Iterable[pytest.Item]) -> list[str]:
    """Lines for ``scripts/test --tiers``: by file and reason, how many cases of which tests."""
    tests: dict[str, dict[str, dict[str, int]]] = {}
    for item in left:
        path, _, name = item.nodeid.partition("::")
        cases = tests.setdefault(path, {}).setdefault(reason_of(item) or "", {})
        function = name.partition("[")[0]
        cases[function] = cases.get(function, 0) + 1
    lines = []
    for path, reasons in sorted(tests.items()):
        lines.append(path)
        for reason, cases in reasons.items():
            lines.append(f"  {reason}")
            lines += [f"    {name}" + (f" ({count} cases)" if count > 1 else "") for name, count in cases.items()]
    return lines
