"""Compares the output with what must be there: every row once, the values of a key in order."""

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
    """The difference between what a reader finds and what must be there."""

    lost: Counter[Any]
    repeated: Counter[Any]
    """Rows that were found too often, with the number of copies too many."""
    strange: Counter[Any]

    @classmethod
    def of(cls, found: Iterable[Any], expected: Iterable[Any]) -> Outcome:
        """Counts both; a Counter counts as often as it says."""
        there, due = Counter(found), Counter(expected)
        more = there - due
        repeated = Counter({row: count for row, count in more.items() if row in due})
        return cls(due - there, repeated, more - repeated)

    def problems(self, *, may_repeat: bool = False) -> str:
        """Returns what is wrong as text, or "" if nothing is."""
        wrong = {
            "lost": self.lost,
            "duplicated": Counter[Any]() if may_repeat else self.repeated,
            "strange": self.strange,
        }
        return ", ".join(f"{name} {rows.total()} {list(rows)[:5]}" for name, rows in wrong.items() if rows)


def check_once(found: Iterable[Any], expected: Iterable[Any]) -> None:
    """Raises AssertionError if rows were lost or duplicated, or are not expected at all."""
    problems = Outcome.of(found, expected).problems()
    assert not problems, problems


class KeyOrder:
    """Checks values ``<key>:<number>``: the numbers of a key must grow."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self.broken: list[str] = []
        """The values whose number was not larger than the last one of their key."""

    def note(self, value: str) -> None:
        """Takes the next value."""
        key, _, text = value.partition(":")
        if self._last.get(key, -1) >= int(text):
            self.broken.append(value)
        self._last[key] = int(text)

    def check(self) -> None:
        """Raises AssertionError if a value was out of order."""
        assert not self.broken, f"out of order: {self.broken[:5]}"


# --- files ------------------------------------------------------------------------------------------------------------


def visible_files(directory: Path, suffix: str) -> list[Path]:
    """Returns the files that a reader of the directory sees."""
    return [
        path
        for path in directory.rglob(f"*.{suffix}")
        if not any(part[0] in "._" for part in path.relative_to(directory).parts)
    ]


def hidden_files(directory: Path) -> list[Path]:
    """Returns the files of the file sink that readers don't see."""
    return [path for path in (directory / ".penstock").rglob("*") if path.is_file()]


def table_of(directory: Path, columns: list[str]) -> pa.Table | None:
    """Returns the rows of the visible Parquet files, or None if there is no file."""
    files = [str(path) for path in visible_files(directory, "parquet")]
    return ds.dataset(files, format="parquet").to_table(columns) if files else None


def rows_of(directory: Path, column: str = "id") -> Counter[Any]:
    """Counts the values of ``column`` in the visible Parquet files."""
    table = table_of(directory, [column])
    return Counter(table.column(0).to_pylist() if table is not None else ())


def lines_of(directory: Path) -> list[str]:
    """Returns the lines of the visible text files, sorted."""
    return sorted(line for path in visible_files(directory, "txt") for line in path.read_text().split())


def check_files(directory: Path, expected: Iterable[int]) -> None:
    """Raises AssertionError unless the visible Parquet files hold each id once."""
    check_once(rows_of(directory), expected)


def check_speculated(attempts: Path) -> None:
    """Raises AssertionError unless the file ``attempts`` of a job with a straggler has second attempts."""
    lines = attempts.read_text().splitlines()
    assert any(line.split()[2] != "0" for line in lines), f"Spark did not speculate: {lines}"
