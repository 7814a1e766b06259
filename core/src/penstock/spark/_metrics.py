"""Metrics from tasks to the driver, through a Spark accumulator."""

from __future__ import annotations

from pyspark.accumulators import AccumulatorParam

__all__ = ["CountsParam"]


class CountsParam(AccumulatorParam[dict[str, int]]):
    """Adds counters by name. A task that is run again counts again: these are for looking at, not for accounting."""

    def zero(self, value: dict[str, int]) -> dict[str, int]:
        """Returns no counters."""
        return {}

    def addInPlace(self, value1: dict[str, int], value2: dict[str, int]) -> dict[str, int]:
        """``value1`` with ``value2`` added."""
        for name, amount in value2.items():
            value1[name] = value1.get(name, 0) + amount
        return value1
