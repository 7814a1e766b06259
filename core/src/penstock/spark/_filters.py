"""Spark's filters as the contracts'."""

from __future__ import annotations

from typing import Any

from pyspark.sql import datasource

from penstock.source import ColumnFilter

__all__ = ["column_filter"]

_OPERATORS: dict[type[Any], Any] = {
    datasource.EqualTo: "=",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
    datasource.In: "in",
    datasource.IsNull: "is null",
    datasource.IsNotNull: "is not null",
}


def column_filter(one: datasource.Filter) -> ColumnFilter | None:
    """Returns the neutral form; ``None`` for filters on fields of structs, and for kinds that contracts do not know."""
    operator = _OPERATORS.get(type(one))
    path: Any = getattr(one, "attribute", ())
    if operator is None or len(path) != 1:
        return None
    value: Any = getattr(one, "value", None)
    return ColumnFilter(path[0], operator, tuple(value) if operator == "in" else value)
