"""What must have come out: every row once, and the records of a key in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

__all__ = [
    "KeyOrder",
    "Outcome",
    "check_files",
    "check_once",
    "check_speculated",
    "hidden_files",
    "lines_of",
    "rows_of",
    "table_of",
    "visible_files",
]


@dataclass(frozen=True)
class Outcome:
    """What is there, beside what should be."""

    lost: Counter[Any]
    repeated: Counter[Any]
    """How often each came more than it should."""
    strange: Counter[Any]

    @classmethod
    def of(cls, found: Iterable[Any], expected: Iterable[Any]) -> Outcome:
        there, due = Counter(found), Counter(expected)
        more = there - due
        repeated = Counter({row: count for row, count in more.items() if row in due})
        return cls(due - there, repeated, more - repeated)

    def problems(self, *, may_repeat: bool = False) -> str:
        """What is wrong, in words; empty if nothing is."""
        wrong = {"lost": self.lost, "doubled": Counter[Any]() if may_repeat else self.repeated, "strange": self.strange}
        return ", ".join(f"{name} {rows.total()} {list(rows)[:5]}" for name, rows in wrong.items() if rows)


def check_once(found: Iterable[Any], expected: Iterable[Any]) -> None:
    """Raises AssertionError with what was lost, doubled or is strange. A Counter counts as often as it says."""
    problems = Outcome.of(found, expected).problems()
    assert not problems, problems


class KeyOrder:
    """Watches over values ``<key>:<number>``, where the numbers of a key grow."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self.broken: list[str] = []
        """Values that came behind a larger one of their key, or behind the same."""

    def note(self, value: str) -> None:
        key, _, text = value.partition(":")
        if self._last.get(key, -1) >= int(text):
            self.broken.append(value)
        self._last[key] = int(text)

    def check(self) -> None:
        assert not self.broken, f"out of order: {self.broken[:5]}"


# --- files ------------------------------------------------------------------------------------------------------------


def visible_files(directory: Path, suffix: str) -> list[Path]:
    """Finished files, as any reader sees them."""
    return [
        path
        for path in directory.rglob(f"*.{suffix}")
        if not any(part[0] in "._" for part in path.relative_to(directory).parts)
    ]


def hidden_files(directory: Path) -> list[Path]:
    """What the file sink has there and does not show."""
    return [path for path in (directory / ".penstock").rglob("*") if path.is_file()]


def table_of(directory: Path, columns: list[str]) -> pa.Table | None:
    """What stands in the finished Parquet files; None if there are none."""
    files = [str(path) for path in visible_files(directory, "parquet")]
    return ds.dataset(files, format="parquet").to_table(columns) if files else None


def rows_of(directory: Path, column: str = "id") -> Counter[Any]:
    """How often each value of ``column`` stands in the finished Parquet files."""
    table = table_of(directory, [column])
    return Counter(table.column(0).to_pylist() if table is not None else ())


def lines_of(directory: Path) -> list[str]:
    """Lines of the finished text files, sorted."""
    return sorted(line for path in visible_files(directory, "txt") for line in path.read_text().split())


def check_files(directory: Path, expected: Iterable[int]) -> None:
    """Raises AssertionError unless each id stands in the finished Parquet files once."""
    check_once(rows_of(directory), expected)


def check_speculated(attempts: Path) -> None:
    """Raises AssertionError unless a job with a straggler noted second attempts there."""
    lines = attempts.read_text().splitlines()
    assert any(line.split()[2] != "0" for line in lines), f"Spark did not speculate: {lines}"
