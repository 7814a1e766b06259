"""Conditions on rows that an engine offers to a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["ColumnFilter"]


@dataclass(frozen=True)
class ColumnFilter:
    """One condition on one top-level column, as SQL means it: a null satisfies none but ``is null``.

    ``value`` is a Python value of the column's type: a tuple for ``in``, ``None`` for the two about null.
    """

    column: str
    operator: Literal["=", "<", "<=", ">", ">=", "in", "is null", "is not null"]
    value: Any = None
