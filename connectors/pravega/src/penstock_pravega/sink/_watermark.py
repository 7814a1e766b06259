"""What the query knows about time, noted at Pravega for whoever reads the stream."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.errors import PenstockError
from penstock_pravega.client import SegmentStores
from penstock_pravega.sink._committable import PravegaCommittable

__all__ = ["WatermarkNoter"]

_log = logging.getLogger("penstock.pravega")


class WatermarkNoter:
    """Notes the watermark of one query, in its name. Driver only, single thread.

    The watermark is the latest time that was committed, less ``out_of_orderness_ms``, as
    :class:`penstock.source.event_time.BoundedOutOfOrderness` has it; it is noted at the end that the stream has once
    all of a batch is committed, so that what is written later is behind it. It is for others' sake: what can't be noted
    is noted with the next batch, and the batch stands.
    """

    def __init__(self, stores: SegmentStores, writer: str, out_of_orderness_ms: int) -> None:
        self._stores = stores
        self._writer = writer
        self._out_of_orderness_ms = out_of_orderness_ms
        self._noted: int | None = None
        self._warned = False

    def note(self, committed: Sequence[PravegaCommittable]) -> None:
        """After all of a batch is committed. Never raises for Pravega's sake."""
        times = [one.latest_ms for one in committed if one.latest_ms is not None]
        if not times or (self._noted is not None and max(times) <= self._noted):
            return
        stream = committed[0].ref.stream
        try:
            noted = self._note(stream, max(times))
        except PenstockError as error:
            self._warn(f"the time of {stream} could not be noted: {error}")
            return
        if noted:
            self._noted, self._warned = max(times), False
        else:  # after a restart: a later one stands already; or the stream is just being scaled
            _log.info("the time %d was not taken by %s", max(times), stream)

    def _note(self, stream: str, latest_ms: int) -> bool:
        scope, _, name = stream.partition("/")
        watermark_ms = latest_ms - self._out_of_orderness_ms
        return self._stores.controller.note_time(scope, name, self._writer, self._stores.tail(stream), watermark_ms)

    def _warn(self, what: str) -> None:
        if not self._warned:
            _log.warning("%s; it is tried again after the next batch", what)
        self._warned = True
