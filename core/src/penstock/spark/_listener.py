"""What is done while a query is idle: carried state is published, and a query at its end is stopped."""

from __future__ import annotations

import atexit
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock._commit import GaveWayError, is_number
from penstock.checkpoint import left_open, open_stored_query
from penstock.errors import BadConfigurationError, PenstockError
from penstock.printable import get_logger
from penstock.spark._ends import remove_listener, stop_queries
from penstock.spark._last_words import note_failure, say_unseen
from penstock.spark._offsets import is_final_batch
from penstock.storage import open_storage

__all__ = ["PublishingListener"]

_log = get_logger("penstock")
#: Of its own, because 'penstock run' says the same in its last lines.
_left_log = get_logger("penstock.left_open")
_ENDING_TRIGGERS = ("AvailableNowTrigger", "OneTimeTrigger")


#: By session. For as long as the process lives, as its end detaches each of them.
_attached: dict[SparkSession, PublishingListener] = {}


class PublishingListener(StreamingQueryListener):
    """Hears that a query is idle and closes what is due by age or inactivity; after an ending trigger, everything.

    A query whose sources have all ended for good (bounded streams) is stopped: no batch runs any more that could.

    Events come on Spark's listener thread (an idle one about every 10 s,
    ``spark.sql.streaming.noDataProgressEventInterval``); the work is done in one thread of its own.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._queries: dict[str, tuple[str, bool]] = {}
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="penstock-publisher")
        self._rolling = threading.Lock()

    @classmethod
    def attach(cls, spark: SparkSession) -> PublishingListener:
        """Returns the listener of ``spark``, which is added once."""
        if spark not in _attached:
            listener = _attached[spark] = cls(spark)
            spark.streams.addListener(listener)
            # A script that just ends would leave the JVM calling a Python that is gone, and saying so at length.
            atexit.register(_detach, spark, listener)
        return _attached[spark]

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Notes where the query's checkpoint is and whether its trigger ends by itself."""
        query: Any = self._spark.streams.get(str(event.id))
        if query is None:
            return
        execution = query._jsq.streamingQuery()
        ends = any(name in execution.trigger().getClass().getName() for name in _ENDING_TRIGGERS)
        self._queries[str(event.runId)] = (str(execution.resolvedCheckpointRoot()), ends)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Does nothing: a running batch handles the state itself."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Closes what is due, or stops the query at its end."""
        if str(event.runId) in self._queries:
            self._worker.submit(self._look_after, str(event.id), self._queries[str(event.runId)][0])

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """After an ending trigger and without an error, closes everything. After an error, says what is left open."""
        checkpoint, ends = self._queries.pop(str(event.runId), ("", False))
        if event.exception is not None:
            note_failure(str(event.runId), str(event.exception))
        if ends and event.exception is None:
            self._worker.submit(self._roll, checkpoint, finish=True)
        elif checkpoint and event.exception is not None:
            self._worker.submit(_say_what_is_left, checkpoint)

    def finish(self) -> None:
        """Returns when all received events are handled. Handles none after that."""
        self._worker.shutdown()

    def publish_all(self, query: Any) -> None:
        """Returns when everything is closed that a query which has ended still held open. Any thread."""
        self._roll(str(query._jsq.streamingQuery().resolvedCheckpointRoot()), finish=True)

    def _look_after(self, query_id: str, checkpoint: str) -> None:
        if not _has_ended(checkpoint):
            self._roll(checkpoint, finish=False)
            return
        query = self._spark.streams.get(query_id)
        if query is not None:
            _log.info("query %s has read its sources to their ends", query_id)
            query.stop()  # which publishes, too, in this thread
        self._roll(checkpoint, finish=True)

    def _roll(self, checkpoint: str, *, finish: bool) -> None:
        try:
            # One at a time: a roll would give way to another one of this process, and leave to it what is not due.
            with self._rolling:
                query = open_stored_query(checkpoint, waits=finish)
                if query.has_open_work():
                    query.protocol.roll(finish=finish)
        except GaveWayError as error:
            _log.debug("a batch comes first: %s", error)
            if finish:
                _say_what_is_left(checkpoint)
        except BadConfigurationError as error:
            _log.debug("nothing to publish for %s: %s", checkpoint, error)
        except (PenstockError, OSError) as error:
            _log.warning(
                "could not publish what is open of %s (%s); run: penstock finish %s", checkpoint, error, checkpoint
            )


def _has_ended(checkpoint: str) -> bool:
    try:
        storage, path = open_storage(checkpoint)
        planned = max((int(name) for name in storage.list_names(f"{path}/offsets") if is_number(name)), default=None)
        committed = storage.list_names(f"{path}/commits")
        if planned is None or str(planned) not in committed:
            return False
        return is_final_batch(storage.read(f"{path}/offsets/{planned}"))
    except (PenstockError, OSError) as error:
        _log.debug("%s can't be looked into: %s", checkpoint, error)
        return False


def _say_what_is_left(checkpoint: str) -> None:
    """Logs a line about a query that has ended, if no reader sees everything that it has committed."""
    try:
        if left := left_open(checkpoint):
            _left_log.warning("a query has ended: %s", left)
    except (PenstockError, OSError) as error:
        _log.debug("%s can't be looked into: %s", checkpoint, error)


def _detach(spark: SparkSession, listener: PublishingListener) -> None:
    """At the end of the script, handles all received events and stops queries that still run."""
    stop_queries(spark)
    listener.finish()
    remove_listener(spark, listener)
    say_unseen()
