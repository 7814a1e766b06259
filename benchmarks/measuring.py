"""Interleaved repetitions, medians and spread; results as JSON and as a table in a page."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

OURS, THEIRS = "penstock", "spark"


@dataclass
class Measurement:
    """The values of both sides. ``better`` is ``more`` or ``less``; ``note`` says what one must know to read it."""

    name: str
    unit: str
    better: str
    values: dict[str, list[float]] = field(default_factory=dict)
    note: str = ""

    def median(self, side: str) -> float | None:
        """``None`` if that side was not measured."""
        return statistics.median(self.values[side]) if self.values.get(side) else None

    @property
    def ratio(self) -> float | None:
        """How Penstock compares with the other side: above 1 it is better, below 1 it falls short."""
        ours, theirs = self.median(OURS), self.median(THEIRS)
        if not ours or not theirs:
            return None
        return ours / theirs if self.better == "more" else theirs / ours

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Measurement:
        """The inverse of :meth:`to_json`."""
        return cls(value["name"], value["unit"], value["better"], value["values"], value["note"])

    def to_json(self) -> dict[str, Any]:
        """With medians and ratio."""
        return asdict(self) | {"median": {side: self.median(side) for side in self.values}, "ratio": self.ratio}


def interleave(sides: Mapping[str, Callable[[], float]], repetitions: int) -> dict[str, list[float]]:
    """Values by side: one round that does not count, then ``repetitions``; who comes first changes with every round."""
    values: dict[str, list[float]] = {side: [] for side in sides}
    order = list(sides)
    for round_number in range(repetitions + 1):
        for side in order:
            value = sides[side]()
            if round_number:
                values[side].append(value)
        order.reverse()
    return values


def number(value: float | None) -> str:
    """``1234567.8`` → ``"1,234,568"``; small ones keep a digit or two."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cell(measurement: Measurement, side: str) -> str:
    values = measurement.values.get(side) or []
    if not values:
        return "–"
    spread = f" ({number(min(values))}–{number(max(values))})" if len(values) > 1 and min(values) != max(values) else ""
    return number(measurement.median(side)) + spread


def as_table(measurements: list[Measurement]) -> str:
    """Returns Markdown; the last column is the ratio, in bold where it is below 1."""
    lines = ["| | unit | Penstock | Spark's own | ratio |", "| --- | --- | --: | --: | --: |"]
    for one in measurements:
        ratio = one.ratio
        words = "" if ratio is None else f"{ratio:.2f} ×" if ratio >= 1 else f"**{ratio:.2f} ×**"
        lines.append(f"| {one.name} | {one.unit} | {_cell(one, OURS)} | {_cell(one, THEIRS)} | {words} |")
    notes = [f"- {one.name}: {one.note}" for one in measurements if one.note]
    return "\n".join([*lines, "", *notes])


def circumstances(packages: Sequence[str]) -> dict[str, Any]:
    """Where and with what it was measured."""
    return {
        "date": date.today().isoformat(),
        "cores": os.cpu_count(),
        "load_at_end": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


class Results:
    """A file of results by case. A case that is measured again replaces its older self, and keeps its place.

    ``packages`` are those whose versions are written down.
    """

    def __init__(
        self, path: Path, packages: Sequence[str] = ("pyspark", "pyarrow", "penstock", "penstock-filesystem")
    ) -> None:
        self._path = path
        self._packages = packages
        self._cases: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def put(self, case: str, measurements: list[Measurement]) -> None:
        """Stores what ``case`` found, with the circumstances."""
        self._cases[case] = {**circumstances(self._packages), "measurements": [one.to_json() for one in measurements]}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._cases, indent=1) + "\n", encoding="utf-8")

    def write_page(
        self,
        page: Path,
        name: str,
        theirs: str = "Spark's own",
        ours: str = "Penstock",
        draw: Callable[[list[Measurement]], str] | None = None,
    ) -> None:
        """Writes all of them as a table between ``<!-- bench: NAME -->`` and ``<!-- /bench -->`` of ``page``, where the
        sides are called ``ours`` and ``theirs``. ``draw`` makes the table, :func:`as_table` by default.
        """
        found = [Measurement.from_json(one) for case in self._cases.values() for one in case["measurements"]]
        lines = {_circumstances_line(case): None for case in self._cases.values()}
        table = (draw or as_table)(found).replace("Spark's own", theirs).replace("| Penstock |", f"| {ours} |")
        block = "\n\n".join([f"<!-- bench: {name} -->", *lines, table]) + "\n<!-- /bench -->"
        pattern = re.compile(rf"<!-- bench: {re.escape(name)} -->.*?<!-- /bench -->", re.DOTALL)
        text = page.read_text(encoding="utf-8")
        page.write_text(pattern.sub(lambda _: block, text, count=1), encoding="utf-8")


def _circumstances_line(case: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{key} {text}" for key, text in case["versions"].items())
    return f"Measured {case['date']}, {case['cores']} cores, Python {case['python']}, {versions}. Median (least–most)."
