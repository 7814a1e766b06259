"""The consumer that speaks Kafka's protocol itself."""

from __future__ import annotations

import threading
import time

from penstock.errors import FatalError
from penstock_kafka.client._contracts import MAX_BATCH_BYTES, Fetched, PartitionRange
from penstock_kafka.client._problems import Problem
from penstock_kafka.client._range_consumer import WavedConsumer
from penstock_kafka.client.direct._fetch_settings import FetchSettings
from penstock_kafka.client.direct._fetcher import Fetcher, Place
from penstock_kafka.client.native._decoder import decode

__all__ = ["DirectConsumer"]


class DirectConsumer(WavedConsumer):
    """See :class:`penstock_kafka.client.RangeConsumer`.

    Threads of its own fetch ahead; batches become rows in the calling thread, in C.
    """

    def __init__(self, settings: FetchSettings) -> None:
        super().__init__()
        self._fetcher = Fetcher(settings)
        self._with_headers = False
        self._woken = False
        self._is_open = True
        self._closing = threading.Lock()

    def _start(self, ranges: list[PartitionRange], headers: bool) -> None:
        self._with_headers = headers
        self._fetcher.start(ranges)

    def _fetch(self, timeout_ms: int, max_rows: int) -> list[Fetched] | Problem:
        deadline = time.monotonic() + timeout_ms / 1000
        fetcher = self._fetcher
        while True:
            if not self._is_open:
                raise RuntimeError("the consumer is closed")
            if fetched := self._gather(max_rows):
                return fetched
            with fetcher.changed:
                if fetcher.lost is not None:
                    return fetcher.lost
                if fetcher.problems:
                    return fetcher.problems.popleft()
                left = deadline - time.monotonic()
                if self._woken or left <= 0:
                    self._woken = False
                    return []
                if not any(place.pieces for place in fetcher.places.values()):
                    fetcher.changed.wait(left)

    def _gather(self, max_rows: int) -> list[Fetched]:
        """What was fetched, up to ``max_rows`` records or about the bytes of a batch."""
        fetched: list[Fetched] = []
        rows = size = 0
        for place in list(self._fetcher.places.values()):
            while place.pieces and rows < max_rows and size < MAX_BATCH_BYTES:
                one = self._decode(place, max_rows - rows, MAX_BATCH_BYTES - size)
                if one.records is not None:
                    rows += one.records.num_rows
                    size += one.records.nbytes
                if one.records is not None or one.finished:
                    fetched.append(one)
        return fetched

    def _decode(self, place: Place, max_rows: int, max_bytes: int) -> Fetched:
        piece = place.pieces[0]
        try:
            decoded = decode(
                piece.plain,
                piece.aborted,
                place.next,
                place.end,
                headers=self._with_headers,
                max_rows=max_rows,
                max_bytes=max_bytes,
            )
        except ValueError as error:
            raise FatalError(
                f"topic '{place.topic}' partition {place.partition} can't be read from offset {place.next} on: {error}"
            ) from error
        place.next = max(place.next, decoded.next)
        is_finished = place.next >= place.end
        if is_finished or (not decoded.more and not piece.go_on()):
            self._fetcher.drop(place, is_finished=is_finished)
        return Fetched(place.index, decoded.records, is_finished)

    def wake_up(self) -> None:
        """Makes a blocked or the next poll return at once."""
        with self._fetcher.changed:
            self._woken = True
            self._fetcher.changed.notify_all()

    def close(self) -> None:
        """Ends the client."""
        with self._closing:
            if not self._is_open:
                return
            self._is_open = False
        self._fetcher.close()
