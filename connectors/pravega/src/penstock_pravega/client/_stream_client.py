"""What the driver asks about streams, from several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from penstock_pravega.client._controller import KeyRange
from penstock_pravega.client._endpoint import ControllerSettings
from penstock_pravega.client._names import epoch_of
from penstock_pravega.client._segment_stores import SegmentStores
from penstock_pravega.client._wire import NoSuchSegment, SegmentInfo

__all__ = ["StreamClient"]

AnswerT = TypeVar("AnswerT")


class StreamClient:
    """Thread-safe: each thread has connections of its own. A stream is ``scope/stream``.

    Every method raises RetriableError if no server answers, BadConfigurationError for a stream that is not there.
    """

    def __init__(self, settings: ControllerSettings) -> None:
        self._settings = settings
        self._local = threading.local()
        self._opened: list[SegmentStores] = []

    @property
    def stores(self) -> SegmentStores:
        """This thread's connections."""
        if not hasattr(self._local, "stores"):
            self._local.stores = SegmentStores(self._settings, writes=False)
            self._opened.append(self._local.stores)
        stores: SegmentStores = self._local.stores
        return stores

    def head(self, stream: str) -> dict[int, int]:
        """Returns the cut before everything that is there."""
        return self.stores.controller.head_cut(*_parts(stream))

    def tail(self, stream: str) -> dict[int, int]:
        """Returns the cut after everything that is there; empty for a sealed stream, whose segments all have an end."""
        controller = self.stores.controller
        while True:
            segments = controller.current_segments(*_parts(stream))
            infos = self.infos(stream, segments)
            # A scaling on the way: the segments were replaced, or their successors are not there yet.
            if all(info is not None and not info.is_sealed for info in infos.values()):
                return {segment: info.end for segment, info in infos.items() if info is not None}
            if controller.current_segments(*_parts(stream)) == segments:
                return {segment: info.end for segment, info in infos.items() if info is not None}

    def infos(self, stream: str, segments: Iterable[int]) -> dict[int, SegmentInfo | None]:
        """Returns where segments begin and end now; ``None`` for one that is gone."""
        found: dict[int, SegmentInfo | None] = {}
        for segment in segments:
            try:
                found[segment] = self.stores.info(stream, segment)
            except NoSuchSegment:
                found[segment] = None
        return found

    def successors(self, stream: str, segment: int) -> Mapping[int, list[int]]:
        """Successor → all that it replaces."""
        return self.stores.controller.successors(*_parts(stream), segment)

    def check_order(self, stream: str, start: Mapping[int, int], end: Mapping[int, int]) -> None:
        """Raises BadConfigurationError if ``end`` is not after ``start``."""
        if end:
            self.stores.controller.segments_between(*_parts(stream), start, end)

    def key_range(self, stream: str, segment: int) -> KeyRange | None:
        """Returns the keys that a segment takes."""
        return self.stores.controller.epoch_segments(*_parts(stream), epoch_of(segment)).get(segment)

    def with_own_connections(self, question: Callable[[], AnswerT]) -> AnswerT:
        """Asks ``question`` in a thread that asks once, and ends the thread's connections."""
        try:
            return question()
        finally:
            stores = self._local.__dict__.pop("stores", None)
            if stores is not None:
                self._opened.remove(stores)
                stores.close()

    def close(self) -> None:
        """Ends the connections."""
        for stores in list(self._opened):
            stores.close()


def _parts(stream: str) -> tuple[str, str]:
    scope, _, name = stream.partition("/")
    return scope, name
