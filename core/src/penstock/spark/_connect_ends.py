"""The end of a run over Spark Connect: the client knows that it ends, and the server reaches checkpoint and target.

A query that is stopped, or has processed all that is available, has what it holds open published by the server, in a
read of its own after that. What that can't do is said in the client's last lines, with the command that does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.printable import get_logger
from penstock.spark._data_source import ENGINE_OPTIONS
from penstock.spark._ends import stopping_queries_first, wrap_method
from penstock.spark._finish_source import FinishSource, finish_on_server
from penstock.spark._statements import refuse_dropped_clauses
from penstock.spark._writers import note_batch_writers, noting_calls, with_noted

__all__ = ["set_up_connect_session"]

_log = get_logger("penstock")

#: Id of a query that this process has started: its checkpoint, and the options of its sink.
_started: dict[str, tuple[str, dict[str, str]]] = {}


def set_up_connect_session(spark: Any) -> None:
    """Wraps what writes and what ends queries of a Connect session; to be called for each session.

    A query leaves nothing hidden when it ends by itself, is stopped, or has processed all that is available; a session
    that is stopped stops its queries first. Calls of writers that would have no effect are refused.
    """
    from pyspark.sql.connect.readwriter import DataFrameWriter, DataFrameWriterV2
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.connect.streaming.query import StreamingQuery
    from pyspark.sql.connect.streaming.readwriter import DataStreamWriter

    spark.dataSource.register(FinishSource)
    for name in ("start", "toTable"):
        wrap_method(DataStreamWriter, name, lambda start: _remembering(with_noted(start)))
    noting_calls(DataStreamWriter)
    note_batch_writers(DataFrameWriter, DataFrameWriterV2)
    refuse_dropped_clauses(SparkSession)
    wrap_method(StreamingQuery, "stop", _publishing)
    wrap_method(StreamingQuery, "processAllAvailable", lambda method: _publishing(method, running=True))
    wrap_method(SparkSession, "stop", stopping_queries_first)


def _remembering(start: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(writer: Any, *args: Any, **given: Any) -> Any:
        query = start(writer, *args, **given)
        sink = writer._write_proto
        checkpoint = next((text for name, text in sink.options.items() if name.lower() == "checkpointlocation"), None)
        if sink.format.lower().startswith("penstock.") and checkpoint is not None:
            ours = {name.lower() for name in ENGINE_OPTIONS}
            options = {name: text for name, text in sink.options.items() if name.lower() not in ours}
            _started[query.id] = checkpoint, options
        return query

    return wrapped


def _publishing(method: Callable[..., Any], *, running: bool = False) -> Callable[..., Any]:
    def wrapped(query: Any) -> None:
        method(query)
        known = _started.get(query.id) if running else _started.pop(query.id, None)
        if known is None:
            if not running:
                _say_that_it_is_unknown(query)
            return
        checkpoint, options = known
        try:
            problem = finish_on_server(query._session, checkpoint, options)
        except Exception as error:
            problem = (str(error).strip() or type(error).__name__).splitlines()[0]
        if problem:
            _log.warning(
                "could not publish what query %s holds open (%s); start it again, or run: penstock finish %s",
                query.id,
                problem,
                checkpoint,
            )

    return wrapped


def _say_that_it_is_unknown(query: Any) -> None:
    progress = query.lastProgress
    # Of a sink in Python Spark says no more than that it is one.
    if progress is not None and "PythonTable" in progress.sink.description:
        _log.warning(
            "query %s was started by another process: what a Penstock sink holds open stays hidden until the "
            "query is started again, or you run: penstock finish CHECKPOINT",
            query.id,
        )
