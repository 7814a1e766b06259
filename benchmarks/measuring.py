"""Interleaved repetitions, medians and spread; results as JSON and as a table in a page."""

from __future__ import annotations

import html
import json
import math
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

from benchmarks.curves import Panel, as_curves
from benchmarks.drawing import as_picture, ratio_text

OURS, THEIRS = "penstock", "spark"
ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
#: The page with the ratios of all, and with results that have no page of their own.
FIRST_PAGE = ROOT / "docs" / "performance" / "README.md"
#: Results by the pages that show them, in the order of the first page.
PAGES = {
    "files": "performance/filesystem.md",
    "kafka": "performance/kafka.md",
    "kafka-clients": "performance/kafka.md",
    "cassandra": "performance/cassandra.md",
    "pravega": "performance/pravega.md",
    "formats": "performance/more.md",
    "event_time": "performance/more.md",
    "enrich": "performance/more.md",
    "foreach_batch": "performance/more.md",
    "scaling": "production/scaling.md",
}
#: Results that are shown as rows of tasks, with nothing to compare with.
OF_TASKS = ("scaling",)
#: Results whose cases are curves: names begin with how much there is, ``10 partitions: a batch``.
OF_GROWTH = ("growth",)
_SIDES = ("Penstock", "Spark's own")
#: What the two sides are called, where it is not Penstock and Spark's own.
SIDES = {
    "kafka-clients": ("client=protocol", "client=librdkafka"),
    "pravega": ("Penstock", "pravega_client"),
    "formats": ("protobuf", "the other"),
    "enrich": ("Penstock", "compared with"),
    "foreach_batch": ("one query", "three queries"),
}
_RATIOS = re.compile(r"<!-- bench ratios -->.*?<!-- /bench ratios -->", re.DOTALL)
_BLOCK = re.compile(r"<!-- bench: ([\w-]+) -->.*?<!-- /bench -->", re.DOTALL)
#: A number of five digits or more.
_LONG = re.compile(r"\b\d{2,3}(?:,\d{3})+\b|\b\d(?:,\d{3}){2,}\b")
#: A picture needs as many bars.
_LEAST_BARS = 4


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
    """Returns three digits: ``1234567.8`` → ``"1.23 M"``, ``45678`` → ``"45,700"``."""
    if value is None:
        return "–"
    if abs(value) >= 999_500:
        return f"{value / 1e6:#.3g}".rstrip(".") + " M"
    digits = round(value, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{digits:,.0f}" if abs(digits) >= 100 else f"{digits:.3g}"


def _cell(measurement: Measurement, side: str) -> str:
    values = measurement.values.get(side) or []
    if not values:
        return "–"
    least, most, median = number(min(values)), number(max(values)), number(measurement.median(side))
    if all(one.endswith(" M") for one in (least, most, median)):
        least, most = least.removesuffix(" M"), most.removesuffix(" M")
    return f"{median} ({least}–{most})" if least != most else median


def _marked(ratio: float) -> str:
    """Returns a ratio, in bold where it is below 1."""
    return f"**{ratio_text(ratio)}**" if float(f"{ratio:.2g}") < 1 else ratio_text(ratio)


def as_table(measurements: list[Measurement]) -> str:
    """Returns Markdown; the last column is the ratio, in bold where it is below 1."""
    lines = ["| | unit | Penstock | Spark's own | ratio |", "| --- | --- | --: | --: | --: |"]
    for one in measurements:
        ratio = one.ratio
        words = "" if ratio is None else _marked(ratio)
        lines.append(f"| {one.name} | {one.unit} | {_cell(one, OURS)} | {_cell(one, THEIRS)} | {words} |")
    notes = [
        f"- {one.name}: {_LONG.sub(lambda n: number(float(n[0].replace(',', ''))), one.note)}"
        for one in measurements
        if one.note
    ]
    return "\n".join([*lines, "", *notes])


def _rounded(found: re.Match[str]) -> str:
    return number(float(found[0].replace(",", "")))


def as_rows(measured: Sequence[Measurement]) -> str:
    """Returns Markdown: a row for each target and number of tasks, which names hold as ``target: 10 tasks: step``."""
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for one in measured:
        case, tasks, what = one.name.split(": ")
        rows.setdefault((case, tasks), {})[what] = one.median(OURS) or 0.0
    lines = [
        "| target | tasks | plan | commit | … a task | … processor | abort | … processor |",
        "| --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for (case, tasks), found in rows.items():
        count = tasks.removesuffix(" tasks")
        a_task = 1000 * found["commit"] / int(count.replace(",", ""))
        cells = [found["plan"], found["commit"], found["commit, processor"], found["abort"], found["abort, processor"]]
        plan, commit, commit_cpu, abort, abort_cpu = (f"{value:.2f} s" for value in cells)
        lines.append(
            f"| {case} | {count} | {plan} | {commit} | {a_task:.1f} ms | {commit_cpu} | {abort} | {abort_cpu} |"
        )
    return "\n".join(lines)


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

    def write_page(self, name: str) -> None:
        """Writes all of them as a picture and a table between ``<!-- bench: NAME -->`` and ``<!-- /bench -->``, and the
        ratios on the first page.
        """
        page = shown_on(name)
        text = page.read_text(encoding="utf-8")
        page.write_text(_BLOCK.sub(lambda f: self.block(name) if f[1] == name else f[0], text), encoding="utf-8")
        for file, picture in self.pictures(name).items():
            (PICTURES / file).write_text(picture, encoding="utf-8")
        table = ratios_of_all(self._path.parent)
        FIRST_PAGE.write_text(_RATIOS.sub(lambda _: table, FIRST_PAGE.read_text("utf-8")), "utf-8")

    def block(self, name: str) -> str:
        """Returns what the page has between and with the marks of ``name``."""
        lines = {_circumstances_line(case): None for case in self._cases.values()}
        ours, theirs = SIDES.get(name, _SIDES)
        table = (
            (as_rows if name in OF_TASKS else as_table)(self._measurements())
            .replace("Spark's own", theirs)
            .replace("| Penstock |", f"| {ours} |")
        )
        folder = os.path.relpath(PICTURES, shown_on(name).parent)
        shown = [f"![{_alternative(picture)}]({folder}/{file})" for file, picture in self.pictures(name).items()]
        return "\n\n".join([f"<!-- bench: {name} -->", *lines, *shown, table.rstrip("\n")]) + "\n<!-- /bench -->"

    def pictures(self, name: str) -> dict[str, str]:
        """Returns SVGs by the names of their files: a curve for each case, or the ratios, unless there are few."""
        if name in OF_GROWTH:
            return {
                f"performance-{name}-{case.replace(' ', '-')}.svg": _curves(name, case, self._measurements(case))
                for case in self._cases
            }
        ratios = self.ratios()
        if len(ratios) < _LEAST_BARS:
            return {}
        return {f"performance-{name}.svg": as_picture(_title(name), ratios)}

    def ratios(self) -> list[tuple[str, float]]:
        """Returns the cases that compare the two sides."""
        return [(one.name, one.ratio) for one in self._measurements() if one.ratio is not None]

    def _measurements(self, only: str | None = None) -> list[Measurement]:
        cases = self._cases.values() if only is None else [self._cases[only]]
        return [Measurement.from_json(one) for case in cases for one in case["measurements"]]


def shown_on(name: str) -> Path:
    """Returns the page that shows the results of ``name``."""
    return ROOT / "docs" / PAGES[name] if name in PAGES else FIRST_PAGE


def ratios_of_all(results: Path) -> str:
    """Returns the first page's table, with its marks: for each page, the least, middle and largest ratio."""
    lines = ["| | compared with | cases | least | median | most |", "| --- | --- | --: | --: | --: | --: |"]
    for name, page in PAGES.items():
        ratios = [ratio for _, ratio in Results(results / f"{name}.json").ratios()]
        if name in OF_TASKS or not ratios:
            continue
        ours, theirs = SIDES.get(name, _SIDES)
        what = name.replace("_", " ") if ours == "Penstock" else f"{name.replace('_', ' ')}: {ours}"
        found = " | ".join(_marked(one) for one in (min(ratios), statistics.median(ratios), max(ratios)))
        lines.append(f"| [{what}]({os.path.basename(page)}) | {_other(theirs)} | {len(ratios)} | {found} |")
    return "\n".join(["<!-- bench ratios -->", "", *lines, "<!-- /bench ratios -->"])


def _curves(name: str, case: str, measured: Sequence[Measurement]) -> str:
    """Returns the SVG of a curve. Measures that only differ in how much there is are points of the same lines."""
    lines: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for one in measured:
        amount, _, what = one.name.partition(": ")
        sides = lines.setdefault((what, one.unit), {})
        for side, words in zip((OURS, THEIRS), SIDES.get(name, _SIDES), strict=True):
            if (value := one.median(side)) is not None:
                sides.setdefault(words, []).append((float(amount.split()[0].replace(",", "")), value))
    panels = [Panel(what, unit, sides) for (what, unit), sides in lines.items()]
    return as_curves(f"{_title(name)}: {case}", case, panels)


def _alternative(picture: str) -> str:
    found = re.search(r"<title[^>]*>(.*?)</title>", picture)
    assert found is not None
    return html.unescape(found[1])


def _other(theirs: str) -> str:
    return "what each case names" if theirs == "compared with" else theirs


def _title(name: str) -> str:
    ours, theirs = SIDES.get(name, _SIDES)
    return f"{ours} compared with {_other(theirs)} ({name.replace('_', ' ')})"


def _circumstances_line(case: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{key} {text}" for key, text in case["versions"].items())
    return f"Measured {case['date']}, {case['cores']} cores, Python {case['python']}, {versions}. Median (least–most)."


def main() -> None:
    """Writes the tables and pictures of the pages again, from the stored results."""
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.json")):
        Results(path).write_page(path.stem)


if __name__ == "__main__":
    main()
