"""Runs of Spark's Declarative Pipelines, as the command ``spark-pipelines`` sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.spark._ends import sum_up, wrap_method

__all__ = ["let_runs_end"]

#: What Spark calls the counters of Python workers in a server's last response.
_COUNTERS = "__python_accumulator__"


def let_runs_end() -> None:
    """Lets the command end with success after a run in which a Python worker took part, and with the cause as its
    last line after one that failed. Once in a process.

    After a run the server sends the counters of its workers, a response that PySpark 4.2 reports as an error.
    """
    from pyspark.sql.connect.client import SparkConnectClient

    wrap_method(SparkConnectClient, "execute_command_as_iterator", _without_counters)


def _without_counters(execute: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    def wrapped(*args: Any, **given: Any) -> Iterator[Any]:
        try:
            yield from execute(*args, **given)
        except Exception as error:
            if not ("UNKNOWN_RESPONSE" in str(error) and _COUNTERS in str(error)):
                sum_up(error)
                raise

    return wrapped
