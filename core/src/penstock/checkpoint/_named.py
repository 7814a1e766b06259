"""Sinks that a batch function writes to: each has a name, and below the checkpoint a place of its own.

``<checkpoint>/penstock/sinks/<name>`` holds what the checkpoint holds of a query's only sink: the sink, its decision
log, and what it keeps until it is sent. Spark's logs and the identity are the checkpoint's.
"""

from __future__ import annotations

import re
from dataclasses import replace

from penstock._commit import Batch
from penstock.checkpoint._spark_log import SparkLog
from penstock.errors import BadConfigurationError
from penstock.storage import Storage

__all__ = ["BatchInFunction", "check_sink_name", "home_of", "named_sinks", "names_of"]

_DIRECTORY = "penstock/sinks"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def check_sink_name(name: str) -> str:
    """Returns ``name``. Raises BadConfigurationError unless it can be a part of a path and of a transaction's id."""
    if not _NAME.fullmatch(name):
        raise BadConfigurationError(
            f"option 'sinkName': '{name}' is no name: use up to 64 letters, digits, - and _, the first no sign"
        )
    return name


def home_of(checkpoint: str, sink: str) -> str:
    """Returns where the sink named ``sink`` keeps what it has; ``""`` is the only sink of a query."""
    return f"{checkpoint}/{_DIRECTORY}/{sink}" if sink else checkpoint


def names_of(query: str, sink: str) -> str:
    """Returns what the names of a sink at its target begin with. ``query``: those of its query."""
    return f"{query}-{sink}" if sink else query


def named_sinks(storage: Storage, checkpoint: str) -> list[str]:
    """Returns the names of sinks that have written with ``checkpoint``, in alphabetical order."""
    below = f"{checkpoint}/{_DIRECTORY}/"
    parts = (path.removeprefix(below).split("/") for path in storage.list_tree(below.rstrip("/")))
    return sorted({name for name, *rest in parts if rest in (["penstock", "sink.json"], ["penstock", "group.json"])})


class BatchInFunction:
    """Spark's log as a batch function sees it: the one batch that it was called for. An ``EngineLog``."""

    def __init__(self, spark_log: SparkLog, number: int, engine_run: str) -> None:
        self._log = spark_log
        self._number = number
        self._engine_run = engine_run

    def planned(self, expected: int | None) -> Batch:
        """Returns the batch. Raises BadConfigurationError unless the query runs it at the moment."""
        last, committed = self._log.last("offsets"), self._log.last("commits")
        if last != self._number or committed >= self._number:
            state = "has not run any batch yet" if last < 0 else f"runs batch {last}"
            state = f"is through with batch {committed}" if 0 <= last <= committed else state
            raise BadConfigurationError(
                f"option 'batchId': {self._number} is not the batch that the query of 'checkpointLocation' runs: it "
                f"{state}. Write inside the function of foreachBatch, with the id and the checkpoint of that query"
            )
        return replace(self._log.planned(self._number), engine_run=self._engine_run)

    def find(self, number: int) -> Batch | None:
        """Returns a batch of the log; ``None`` if it is not there (any more)."""
        return self._log.find(number)
