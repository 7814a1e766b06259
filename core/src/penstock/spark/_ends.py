"""The end of a run, as the user's process sees it: everything that was written can be read.

Spark tells a sink in Python neither which trigger its query has nor that the query ends. The user's process knows both,
so methods of pyspark are wrapped there. A sink learns that its run ends by itself, and publishes everything with the
batch that may be the last, however the process waits for it. What any other query holds open is published by the
process that stops it, or lets it process all that is available. Over Connect that process may not reach the target,
see ``_connect_ends.py``.

In a classic session the cause of a failed query or write is printed once more, in a line, where users look first.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import re
from collections.abc import Callable
from typing import Any

from penstock._causes import carries_ours, explain
from penstock.spark._last_words import note_seen

__all__ = [
    "ENDS_OPTION",
    "publish_at_ends",
    "remove_listener",
    "stop_queries",
    "stopping_queries_first",
    "sum_up",
    "summing_up",
    "when_session_ends",
    "wrap_method",
]

#: Tells the sink that its run ends by itself (``availableNow``, ``once``), and that no process publishes after it.
ENDS_OPTION = "penstock.run.ends"
_MARK = "_penstock_wrapped"
#: How Spark names the run in the error of a query that has failed.
_RUN = re.compile(r"runId = ([0-9a-f-]{36})")
#: How long the end of a session waits for events that are still being handled.
_LAST_CALLS_MS = 10_000
#: What to call when a session was stopped, with the session. Each leaves then.
_at_ends: list[tuple[Any, Callable[[], None]]] = []


def publish_at_ends(publish: Callable[[Any], None]) -> None:
    """Calls ``publish(query)`` from now on, in the caller's thread, when a query was stopped, or has been waited for
    and has ended without an error, or has processed all that is available; and a session that is stopped stops its
    queries first. Penstock's errors end with a line that sums them up. Classic sessions; once in a process.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery, StreamingQueryManager

    def publishing(method: Callable[..., Any], *, running: bool = False) -> Callable[..., Any]:
        def wrapped(query: Any, *args: Any, **given: Any) -> Any:
            try:
                answer = method(query, *args, **given)
            except Exception:
                note_seen(str(query.runId))
                raise
            if (running or not query.isActive) and query.exception() is None:
                publish(query)
            return answer

        return wrapped

    for name in ("stop", "awaitTermination"):
        wrap_method(StreamingQuery, name, lambda method: publishing(summing_up(method)))
    wrap_method(StreamingQuery, "processAllAvailable", lambda method: publishing(summing_up(method), running=True))
    wrap_method(StreamingQuery, "exception", _noting_seen)
    wrap_method(StreamingQueryManager, "awaitAnyTermination", lambda method: summing_up(_noting_raised(method)))
    wrap_method(SparkSession, "stop", stopping_queries_first)


def _noting_seen(method: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(query: Any) -> Any:
        failure = method(query)
        if failure is not None:
            note_seen(str(query.runId))
        return failure

    return wrapped


def _noting_raised(method: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(queries: Any, *args: Any, **given: Any) -> Any:
        try:
            return method(queries, *args, **given)
        except Exception as error:
            for run in _RUN.findall(str(error)):
                note_seen(run)
            raise

    return wrapped


def stopping_queries_first(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a session's ``stop``, after the ends of its queries, and before what waits for its own end."""

    def wrapped(spark: Any, *args: Any, **given: Any) -> Any:
        stop_queries(spark)
        try:
            return method(spark, *args, **given)
        finally:
            for session, end in [one for one in _at_ends if _same_engine(one[0], spark)]:
                _at_ends.remove((session, end))
                end()

    return wrapped


def when_session_ends(spark: Any, end: Callable[[], None]) -> None:
    """Calls ``end`` once the session was stopped, in the thread that stops it, or when the process ends."""
    wrap_method(type(spark), "stop", stopping_queries_first)
    _at_ends.append((spark, end))
    atexit.register(end)


def _same_engine(one: Any, other: Any) -> bool:
    """Returns whether one session ends with the other: classic ones have one context in a process."""
    return one is other or getattr(one, "_sc", one) is getattr(other, "_sc", other)


def summing_up(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a method so that its error is the last line on the screen, after two stack traces and a query plan."""

    @functools.wraps(method)
    def wrapped(*args: Any, **given: Any) -> Any:
        try:
            return method(*args, **given)
        except Exception as error:
            sum_up(error)
            raise

    return wrapped


def sum_up(error: Exception) -> None:
    """Adds a last line to what Python prints of an error of Penstock's: its cause."""
    if carries_ours(error) and hasattr(error, "add_note"):  # Python 3.11
        error.add_note(f"penstock: {explain(error)}")


def stop_queries(spark: Any) -> None:
    """Stops the queries of a session that ends, one after the other, so that what they hold open is published.

    Without it they would end with their JVM, in the middle of whatever they do.
    """
    with contextlib.suppress(Exception):  # the JVM may have gone before us
        for query in spark.streams.active:
            with contextlib.suppress(Exception):  # and the others are to be stopped as well
                query.stop()


def remove_listener(spark: Any, listener: Any) -> None:
    """Removes a listener from a session that ends. Returns when Spark is not calling it any more, or after 10 seconds.

    Spark calls Python from a thread of its own. If Python ended in the middle of a call, the JVM would print a page of
    traces after a script that has done all it was to do.
    """
    with contextlib.suppress(Exception):  # the JVM may have gone before us
        spark.streams.removeListener(listener)
        if hasattr(spark, "_jsparkSession"):
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_LAST_CALLS_MS)


def wrap_method(owner: Any, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replaces a method of pyspark's by what ``wrapper`` returns for it. Once, however often it is called."""
    before = getattr(owner, name)
    if not getattr(before, _MARK, False):
        wrapped = functools.wraps(before)(wrapper(before))
        setattr(wrapped, _MARK, True)
        setattr(owner, name, wrapped)
