"""Publishes the query's watermark to Pravega, for readers of the stream."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import PenstockError
from penstock.printable import get_logger
from penstock_pravega.client import SegmentStores
from penstock_pravega.sink._committable import PravegaCommittable

__all__ = ["WatermarkPublisher"]

_log = get_logger("penstock.pravega")


class WatermarkPublisher:
    """Publishes the watermark of one query, under its name. Driver only, single thread.

    The watermark is the latest time that was committed less ``out_of_orderness_ms``, as with
    :class:`penstock.source.event_time.BoundedOutOfOrderness`. It is published at the tail of the stream after all of a
    batch is committed, so later events are after it. A failure is only logged: the next batch publishes again.
    """

    def __init__(self, stores: SegmentStores, writer: str, out_of_orderness_ms: int) -> None:
        self._stores = stores
        self._writer = writer
        self._out_of_orderness_ms = out_of_orderness_ms
        self._published: int | None = None
        self._warned = False

    def publish(self, committed: Sequence[PravegaCommittable]) -> None:
        """Publishes after all of a batch is committed. Logs errors of Pravega instead of raising them."""
        times = [one.latest_ms for one in committed if one.latest_ms is not None]
        if not times or (self._published is not None and max(times) <= self._published):
            return
        stream = committed[0].ref.stream
        try:
            accepted = self._publish(stream, max(times))
        except PenstockError as error:
            self._warn(f"the time of {stream} could not be noted: {error}")
            return
        if accepted:
            self._published, self._warned = max(times), False
        else:  # after a restart, if a later one is there already; or while the stream is being scaled
            _log.info("the time %d was not taken by %s", max(times), stream)

    def _publish(self, stream: str, latest_ms: int) -> bool:
        scope, _, name = stream.partition("/")
        watermark_ms = latest_ms - self._out_of_orderness_ms
        return self._stores.controller.note_time(scope, name, self._writer, self._stores.tail(stream), watermark_ms)

    def _warn(self, what: str) -> None:
        if not self._warned:
            _log.warning("%s; it is tried again after the next batch", what)
        self._warned = True
