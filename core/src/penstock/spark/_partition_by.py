"""``partitionBy`` of a stream's writer. Spark tells a sink in Python nothing of it, so it becomes an option.

A connector that has the option ``partitionBy`` honours it; any other refuses it, as it refuses every option that it
does not have.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from penstock.spark._ends import wrap_method

__all__ = ["noting_partitions", "with_partitions"]

_OPTION = "partitionBy"
_COLUMNS, _FORMAT = "_penstock_partition_columns", "_penstock_format"


def noting_partitions(writer_class: Any) -> None:
    """Lets the writers of streams note what ``partitionBy`` and ``format`` were called with. Once in a process."""

    def noting(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def wrapper(method: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(writer: Any, *given: Any, **named: Any) -> Any:
                setattr(writer, name, (*given, *named.values()))
                return method(writer, *given, **named)

            return wrapped

        return wrapper

    wrap_method(writer_class, "partitionBy", noting(_COLUMNS))
    wrap_method(writer_class, "format", noting(_FORMAT))


def with_partitions(start: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a writer's ``start``. Sets the option for our formats: others have what Spark makes of ``partitionBy``."""
    signature = inspect.signature(start)

    def wrapped(writer: Any, *args: Any, **given: Any) -> Any:
        arguments = signature.bind(writer, *args, **given).arguments
        columns = _flat(arguments.get("partitionBy") or getattr(writer, _COLUMNS, ()))
        source = arguments.get("format") or next(iter(getattr(writer, _FORMAT, ())), "")
        if columns and str(source).lower().startswith("penstock."):
            writer.option(_OPTION, ",".join(columns))
        return start(writer, *args, **given)

    return wrapped


def _flat(given: Any) -> list[str]:
    """Returns columns that were given as one text, as several, or as a list of them."""
    names = [given] if isinstance(given, str) else list(given)
    return [str(name) for one in names for name in (one if isinstance(one, (list, tuple)) else [one])]
