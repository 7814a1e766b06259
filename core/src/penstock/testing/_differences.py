"""What is wrong with the rows that are seen, in the words of the field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

__all__ = ["difference"]

_MOST_SHOWN = 10


def difference(seen: Counter[int], wanted: Counter[int], *, may_double: bool = False) -> str:
    """Returns what is wrong with the rows that are seen, by their numbers; nothing is an empty text."""
    lost = sorted(row for row in wanted if seen[row] < wanted[row])
    duplicated = {row: count for row, count in sorted(seen.items()) if count > wanted[row] > 0}
    strange = sorted(row for row in seen if not wanted[row])
    problems = [f"lost: {_shown(lost)} of {len(wanted)} rows"] if lost else []
    if duplicated and not may_double:
        most = max(duplicated.values())
        problems.append(f"duplicated: {_shown(list(duplicated))}, up to {most} times")
    if strange:
        problems.append(f"visible, and not to be: {_shown(strange)}")
    return "; ".join(problems)


def _shown(rows: Sequence[int]) -> str:
    text = ", ".join(map(str, rows[:_MOST_SHOWN]))
    more = len(rows) - _MOST_SHOWN
    return f"{'row' if len(rows) == 1 else 'rows'} {text}{f' and {more} more' if more > 0 else ''}"
