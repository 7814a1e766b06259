"""Conditions that Spark offers, as CQL: those that the server can serve, and means as Spark does."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any

from penstock.source import ColumnFilter
from penstock_cassandra._tables import Table, quoted

__all__ = ["conditions_for", "literal", "servable"]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_RANGES = ("<", "<=", ">", ">=")


def literal(cql_type: str, value: Any) -> str | None:
    """``value`` as CQL; ``None`` for types whose order, or equality, is not Spark's."""
    if cql_type in ("text", "varchar", "ascii") and isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if cql_type in _INTEGERS and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if cql_type == "boolean" and isinstance(value, bool):
        return str(value).lower()
    if cql_type in ("uuid", "timeuuid") and isinstance(value, str) and _UUID.fullmatch(value):
        return value
    if cql_type == "date" and isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return f"'{value.isoformat()}'"
    if cql_type == "timestamp" and isinstance(value, datetime.datetime) and value.tzinfo is not None:
        # Cassandra has milliseconds.
        return None if value.microsecond % 1000 else str(round(value.timestamp() * 1000))
    return None


def conditions_for(table: Table, filters: Sequence[ColumnFilter]) -> tuple[list[str], list[ColumnFilter]]:
    """Conditions in CQL, and the filters that they stand for.

    Served are: the whole partition key by ``=``; clustering columns by ``=`` from the first on, then one by a range;
    indexed columns by ``=``. That a column of the key is not null goes without saying.
    """
    types = {name: column.cql_type for name, column in table.columns.items()}
    found: list[str] = []
    served: list[ColumnFilter] = []

    def take(name: str, operators: Sequence[str]) -> bool:
        took = False
        for one in filters:
            if one.column != name or one.operator not in operators:
                continue
            text = literal(types[name], one.value)
            # The order of UUIDs is not that of their texts.
            if text is None or (one.operator != "=" and types[name] in ("uuid", "timeuuid", "boolean")):
                continue
            found.append(f"{quoted(name)} {one.operator} {text}")
            served.append(one)
            took = True
        return took

    key = [column.name for column in table.partition_key]
    by_name: dict[str, list[ColumnFilter]] = {name: [] for name in key}
    for one in filters:
        if one.operator == "=" and one.column in by_name and literal(types[one.column], one.value) is not None:
            by_name[one.column].append(one)
    if all(len(equal) == 1 for equal in by_name.values()):
        for name in key:
            take(name, ("=",))
    for column in table.clustering_key:
        if not (sum(f.column == column.name and f.operator == "=" for f in filters) == 1 and take(column.name, ("=",))):
            take(column.name, _RANGES)
            break
    for name in table.indexed:
        if sum(one.column == name and one.operator == "=" for one in filters) == 1:
            take(name, ("=",))
    primary = {column.name for column in table.primary_key}
    served += [one for one in filters if one.operator == "is not null" and one.column in primary]
    return found, served


def servable(table: Table) -> str:
    """Returns a line about what :func:`conditions_for` takes of this table, for people."""
    key = " and ".join(f"{column.name} =" for column in table.partition_key)
    parts = [f"{key} (one partition, no scan)"]
    if table.clustering_key:
        parts.append(
            f"{', '.join(column.name for column in table.clustering_key)} from the first on, the last by a range"
        )
    parts += [f"{name} = (indexed)" for name in table.indexed]
    return f"filters that the server can apply: {'; '.join(parts)}"
