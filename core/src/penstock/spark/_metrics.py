"""Metrics from tasks to the driver, through a Spark accumulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

__all__ = ["CountsParam", "add_counts"]

#: Between a query's id and the name of a counter.
_OF_QUERY = "/"
#: Counters that the driver keeps. Of more, those of the queries that were counted first are forgotten.
_MOST_COUNTERS = 10_000


class CountsParam(AccumulatorParam[dict[str, int]]):
    """Adds counters by name. A task that is run again counts again: these are for looking at, not for accounting."""

    def zero(self, value: dict[str, int]) -> dict[str, int]:
        """Returns no counters."""
        return {}

    def addInPlace(self, value1: dict[str, int], value2: dict[str, int]) -> dict[str, int]:
        """``value1`` with ``value2`` added."""
        for name, amount in value2.items():
            if name not in value1 and len(value1) >= _MOST_COUNTERS:
                value1.pop(next((one for one in value1 if _OF_QUERY in one), name), None)
            value1[name] = value1.get(name, 0) + amount
        return value1

    @staticmethod
    def totals(value: Mapping[str, int]) -> dict[str, int]:
        """Returns the counters of all tasks, by name, of an accumulator's value. Any thread of the driver."""
        return {name: amount for name, amount in dict(value).items() if _OF_QUERY not in name}

    @staticmethod
    def by_query(value: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Returns the counters of each streaming query's tasks, by its id. Any thread of the driver."""
        found: dict[str, dict[str, int]] = {}
        for key, amount in dict(value).items():
            query_id, separator, name = key.partition(_OF_QUERY)
            if separator:
                found.setdefault(query_id, {})[name] = amount
        return found


def add_counts(accumulator: Any, counts: Mapping[str, int]) -> None:
    """Adds the counters of a task, in all and for its streaming query. Task; once at its end."""
    if accumulator is None or not counts:
        return
    task = TaskContext.get()
    query_id = task.getLocalProperty("sql.streaming.queryId") if task is not None else None
    of_query = {f"{query_id}{_OF_QUERY}{name}": amount for name, amount in counts.items()} if query_id else {}
    accumulator.add({**counts, **of_query})
