"""What a stream's writer was called with, of which Spark lets a sink in Python know nothing.

``partitionBy`` becomes an option. A connector that has this option honours it; any other refuses it, as it refuses
every option that it does not have. Output mode ``update`` is refused: Spark has none for sinks in Python.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from penstock.errors import BadConfigurationError
from penstock.spark._ends import wrap_method

__all__ = ["noting_calls", "with_noted"]

_OPTION = "partitionBy"
#: Attributes of a writer: what its methods were called with.
_NOTED = {
    "partitionBy": "_penstock_partition_columns",
    "format": "_penstock_format",
    "outputMode": "_penstock_output_mode",
}


def noting_calls(writer_class: Any) -> None:
    """Lets the writers of streams note what these methods were called with. Once in a process."""

    def noting(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def wrapper(method: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(writer: Any, *given: Any, **named: Any) -> Any:
                setattr(writer, name, (*given, *named.values()))
                return method(writer, *given, **named)

            return wrapped

        return wrapper

    for method, name in _NOTED.items():
        wrap_method(writer_class, method, noting(name))


def with_noted(start: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a writer's ``start`` or ``toTable``, for our formats: others have what Spark makes of these calls."""
    signature = inspect.signature(start)

    def wrapped(writer: Any, *args: Any, **given: Any) -> Any:
        arguments = signature.bind(writer, *args, **given).arguments

        def noted(method: str) -> list[str]:
            return _flat(arguments.get(method) or getattr(writer, _NOTED[method], ()))

        source = next(iter(noted("format")), "")
        if source.lower().startswith("penstock."):
            if "update" in [mode.lower() for mode in noted("outputMode")]:
                raise BadConfigurationError(
                    f"sink {source}: Spark has no output mode update for sinks in Python. Write in foreachBatch, with "
                    "penstock.batch_writer: its batches have the rows that have changed"
                )
            if columns := noted("partitionBy"):
                writer.option(_OPTION, ",".join(columns))
        return start(writer, *args, **given)

    return wrapped


def _flat(given: Any) -> list[str]:
    """Returns columns that were given as one text, as several, or as a list of them."""
    names = [given] if isinstance(given, str) else list(given)
    return [str(name) for one in names for name in (one if isinstance(one, (list, tuple)) else [one])]
