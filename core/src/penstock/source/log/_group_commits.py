"""Positions of finished batches committed to a consumer group, in order and off the trigger's path."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from penstock.errors import PenstockError
from penstock.printable import get_logger
from penstock.source._contracts import EnumeratorContext
from penstock.source.log._contracts import LogClient
from penstock.source.log._positions import LogPartition

__all__ = ["GroupCommits"]

_log = get_logger("penstock.source")
_FINISH_SECONDS = 10.0


class GroupCommits:
    """At most one commit is running; offsets that come meanwhile are in the next, so a group never moves backwards.

    A commit that fails is logged and its positions are tried again with the next batch's: Spark's checkpoint is what
    counts, the group is for looking at.
    """

    def __init__(self, context: EnumeratorContext, client: LogClient, group: str) -> None:
        self._context = context
        self._client = client
        self._group = group
        self._waiting: dict[LogPartition, int] = {}
        self._running = False
        self._changed = threading.Condition()

    def add(self, positions: Mapping[LogPartition, int]) -> None:
        """Commits ``positions`` soon. Coordinator thread."""
        with self._changed:
            self._waiting.update(positions)
            if self._running:
                return
            self._running = True
        self._context.call_async(self._run, lambda _, error: None)

    def _run(self) -> None:
        while True:
            with self._changed:
                positions, self._waiting = self._waiting, {}
                if not positions:
                    self._stopped()
                    return
            try:
                self._client.commit(self._group, positions)
            except PenstockError as error:
                _log.warning(
                    "offsets of the consumer group were not committed (the checkpoint is what counts): %s", error
                )
                with self._changed:
                    self._waiting = {**positions, **self._waiting}
                    self._stopped()
                return

    def _stopped(self) -> None:
        self._running = False
        self._changed.notify_all()

    def finish(self) -> None:
        """Waits for a running commit, for at most 10 s."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running, _FINISH_SECONDS)
