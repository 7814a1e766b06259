"""Clauses of SQL statements that Spark drops before a source in Python could see them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock.errors import BadConfigurationError
from penstock.spark._ends import wrap_method

__all__ = ["refuse_dropped_clauses"]

_TEXT_OR_COMMENT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_TABLE = re.compile(
    r"\s*(?:CREATE|REPLACE)\b.*?\bTABLE\b.*?\bUSING\s+(penstock\s*\.\s*\w+)(.*)", re.IGNORECASE | re.DOTALL
)
_IN_PARENTHESES = re.compile(r"\([^()]*\)")
_QUERY = re.compile(r"\bAS\b", re.IGNORECASE)
_DROPPED = re.compile(r"\b(PARTITIONED\s+BY|CLUSTER(?:ED)?\s+BY|LOCATION)\b", re.IGNORECASE)

_INSTEAD = {
    "PARTITIONED BY": "; to write partitions, use df.write.partitionBy(…).save()",
    "LOCATION": ". Name the place in each statement that reads or writes: INSERT INTO t WITH (path = '…')",
}


def refuse_dropped_clauses(session_class: Any) -> None:
    """Lets ``sql`` of such sessions refuse a table of ours with a clause that would have no effect. Once in a process.

    Spark gives a source in Python neither the partitions nor the location of a table in its catalog.
    """
    wrap_method(session_class, "sql", _refusing)


def _refusing(sql: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(session: Any, *args: Any, **given: Any) -> Any:
        text = args[0] if args else given.get("sqlQuery")
        if isinstance(text, str):
            _check(text)
        return sql(session, *args, **given)

    return wrapped


def _check(text: str) -> None:
    if "penstock" not in text.lower():
        return
    found = _TABLE.match(_TEXT_OR_COMMENT.sub(" ", text).replace("`", ""))
    if found is None:
        return
    source, rest = found[1], found[2]
    while (shorter := _IN_PARENTHESES.sub(" ", rest)) != rest:
        rest = shorter
    clause = _DROPPED.search(_QUERY.split(rest, maxsplit=1)[0])
    if clause is not None:
        name = " ".join(clause[1].upper().split())
        raise BadConfigurationError(
            f"CREATE TABLE … USING {source}: {name} has no effect, since Spark does not pass it on to sources in "
            f"Python: leave it out{_INSTEAD.get(name, '')}"
        )
