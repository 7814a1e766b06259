"""What a writer was called with, of which Spark lets a sink in Python know nothing.

``partitionBy`` becomes an option, of streams and of batch writes. A connector that has this option honours it; any
other refuses it, as it refuses every option that it does not have. Output mode ``update`` is refused: Spark has none
for sinks in Python. So are ``clusterBy``, and ``partitionedBy`` of ``writeTo``, which Spark would ignore.

An option tells a sink whether its run ends by itself.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from penstock.errors import BadConfigurationError
from penstock.spark._ends import ENDS_OPTION, summing_up, wrap_method
from penstock.spark._foreach_batch import as_attempt, check_format

__all__ = ["note_batch_writers", "note_frame_writers", "noting", "noting_calls", "with_noted"]

_OPTION = "partitionBy"
#: Attributes of a writer: what its methods were called with.
_NOTED = {
    "partitionBy": "_penstock_partition_columns",
    "format": "_penstock_format",
    "outputMode": "_penstock_output_mode",
    "trigger": "_penstock_trigger",
    "clusterBy": "_penstock_cluster_columns",
    "using": "_penstock_provider",
    "partitionedBy": "_penstock_table_partitions",
}
#: Methods of ``df.write`` that write without ``format`` and ``save``.
_SHORT = ("csv", "insertInto", "jdbc", "json", "orc", "parquet", "text", "xml")
_OF_STREAMS = ("partitionBy", "format", "outputMode", "trigger", "clusterBy")


def noting(method: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns what wraps ``method`` of a writer, so that the writer notes what it was called with."""

    def wrapper(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(writer: Any, *given: Any, **named: Any) -> Any:
            setattr(writer, _NOTED[method], (*given, *named.values()))
            return call(writer, *given, **named)

        return wrapped

    return wrapper


def noting_calls(writer_class: Any, methods: Iterable[str] = _OF_STREAMS) -> None:
    """Lets writers note what these methods were called with. Once in a process."""
    for method in methods:
        wrap_method(writer_class, method, noting(method))


def with_noted(start: Callable[..., Any], *, is_batch: bool = False) -> Callable[..., Any]:
    """Wraps a writer's ``start``, ``toTable`` or, of a batch, ``save``, for our formats: others have what Spark makes
    of these calls.
    """
    signature = inspect.signature(start)

    def wrapped(writer: Any, *args: Any, **given: Any) -> Any:
        bound = signature.bind(writer, *args, **given)
        arguments = bound.arguments

        def noted(method: str) -> list[str]:
            return _flat(arguments.get(method) or getattr(writer, _NOTED[method], ()))

        source = next(iter(noted("format")), "")
        if is_batch:
            check_format(writer, source)
        if source.lower().startswith("penstock."):
            _activate(getattr(writer, "_spark", None))
            if "update" in [mode.lower() for mode in noted("outputMode")]:
                raise BadConfigurationError(
                    f"sink {source}: Spark has no output mode update for sinks in Python. Write in foreachBatch, with "
                    "penstock.batch_writer: its batches have the rows that have changed"
                )
            if not is_batch:  # of ``availableNow`` and ``once``, and of no other trigger, the value is True
                writer.option(ENDS_OPTION, "true" if "True" in noted("trigger") else "false")
            if noted("clusterBy"):
                raise _no_layout(source, "clusterBy")
            if columns := noted("partitionBy"):
                writer.option(_OPTION, ",".join(columns))
            if columns and is_batch:
                # Spark compares them with the partitioning of a table, which our formats have not.
                arguments.pop("partitionBy", None)
                writer.partitionBy()
        return start(*bound.args, **bound.kwargs)

    return wrapped


def _activate(session: Any) -> None:
    """Makes ``session`` the active one of a thread that has none: Spark looks there for formats in Python, and does not
    find ours in a thread that the user has started. Over Connect there is nothing to do.
    """
    if hasattr(session, "_jsparkSession"):
        sessions = session._get_j_spark_session_class(session._jvm)
        if not sessions.getActiveSession().isDefined():
            sessions.setActiveSession(session._jsparkSession)


def note_batch_writers(of_frames: Any, of_tables: Any) -> None:
    """Lets the writers of ``df.write`` and ``df.writeTo`` note what they were called with, and refuse what Spark would
    ignore; in a classic session or over Connect. Once in a process.
    """
    note_frame_writers(of_frames)
    noting_calls(of_tables, ("using", "partitionedBy", "clusterBy"))
    for name in ("create", "replace", "createOrReplace"):
        wrap_method(of_tables, name, _without_layout)


def note_frame_writers(of_frames: Any) -> None:
    """Does what :func:`note_batch_writers` does, for the class of ``df.write`` alone."""
    noting_calls(of_frames, ("partitionBy", "format", "clusterBy"))
    for name in ("save", "saveAsTable"):
        wrap_method(of_frames, name, lambda save: summing_up(as_attempt(with_noted(save, is_batch=True))))
    for name in _SHORT:
        wrap_method(of_frames, name, functools.partial(_of_another_format, name))


def _of_another_format(name: str, write: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(write)
    def wrapped(writer: Any, *args: Any, **given: Any) -> Any:
        check_format(writer, "a table" if name == "insertInto" else name)
        return write(writer, *args, **given)

    return wrapped


def _without_layout(create: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(writer: Any) -> Any:
        source = next(iter(getattr(writer, _NOTED["using"], ())), "")
        layouts = [one for one in ("partitionedBy", "clusterBy") if hasattr(writer, _NOTED[one])]
        if layouts and str(source).lower().startswith("penstock."):
            raise _no_layout(source, layouts[0])
        return create(writer)

    return wrapped


def _no_layout(source: str, method: str) -> BadConfigurationError:
    hint = "" if method == "clusterBy" else "; to write partitions, use df.write.partitionBy(…).save()"
    return BadConfigurationError(f"sink {source}: {method} has no effect on sinks in Python: leave it out{hint}")


def _flat(given: Any) -> list[str]:
    """Returns columns that were given as one text, as several, or as a list of them."""
    names = [given] if isinstance(given, str) else list(given)
    return [str(name) for one in names for name in (one if isinstance(one, (list, tuple)) else [one])]
