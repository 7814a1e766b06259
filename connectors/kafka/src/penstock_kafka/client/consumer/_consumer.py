"""The consumer that speaks Kafka's protocol itself."""

from __future__ import annotations

import threading
import time

from penstock_kafka.client._errors import Problem
from penstock_kafka.client._held_back import HeldBack
from penstock_kafka.client._interfaces import MAX_BATCH_BYTES, Fetched, PartitionRange
from penstock_kafka.client._range_consumer import SequencedRangeConsumer
from penstock_kafka.client.consumer._fetch_settings import FetchSettings
from penstock_kafka.client.consumer._fetcher import Fetcher
from penstock_kafka.client.consumer._position import FetchPosition

__all__ = ["ProtocolConsumer"]


class ProtocolConsumer(SequencedRangeConsumer):
    """Reads ranges: threads of its own fetch ahead, and batches become rows in the calling thread, in C."""

    def __init__(self, settings: FetchSettings) -> None:
        super().__init__()
        self._fetcher = Fetcher(settings)
        self._fetches = self._fetcher.fetches
        self._with_headers = False
        #: Set by any thread, reset by the reader; under the fetcher's lock, so that no wake-up is missed.
        self._woken = False
        self._is_open = True
        #: Ensures that the fetcher is closed once, from any thread.
        self._closing = threading.Lock()

    @property
    def held_back(self) -> HeldBack:
        """For how long quotas have held reading back."""
        return self._fetches.held_back

    @property
    def reads_by_id(self) -> bool:
        """Returns True: it fetches topics by their ids where brokers have them."""
        return True

    def _start(self, ranges: list[PartitionRange], headers: bool) -> None:
        self._with_headers = headers
        self._fetcher.start(ranges)

    def _fetch(self, timeout_ms: int, max_rows: int) -> list[Fetched] | Problem:
        deadline = time.monotonic() + timeout_ms / 1000
        fetches = self._fetches
        while True:
            if not self._is_open:
                raise RuntimeError("the consumer is closed")
            if fetched := self._gather(max_rows):
                return fetched
            with fetches.changed:
                if fetches.fatal is not None:
                    return fetches.fatal
                if fetches.problems:
                    return fetches.problems.popleft()
                left = deadline - time.monotonic()
                if self._woken or left <= 0:
                    self._woken = False
                    return []
                if not any(position.fetched for position in fetches.positions.values()):
                    fetches.changed.wait(left)

    def _gather(self, max_rows: int) -> list[Fetched]:
        """Decodes what was fetched, up to ``max_rows`` records or about the bytes of a batch."""
        fetched: list[Fetched] = []
        rows = size = 0
        for position in list(self._fetches.positions.values()):
            while position.fetched and rows < max_rows and size < MAX_BATCH_BYTES:
                one = self._decode(position, max_rows - rows, MAX_BATCH_BYTES - size)
                if one.records is not None:
                    rows += one.records.num_rows
                    size += one.records.nbytes
                if one.records is not None or one.finished:
                    fetched.append(one)
        return fetched

    def _decode(self, position: FetchPosition, max_rows: int, max_bytes: int) -> Fetched:
        decoded, is_through = position.read_on(headers=self._with_headers, max_rows=max_rows, max_bytes=max_bytes)
        is_finished = position.next_offset >= position.end_offset
        if is_finished or is_through:
            self._fetches.drop(position, is_finished=is_finished)
        return Fetched(position.index, decoded.records, is_finished)

    def wake_up(self) -> None:
        """Makes a blocked or the next poll return at once."""
        with self._fetches.changed:
            self._woken = True
            self._fetches.changed.notify_all()

    def close(self) -> None:
        """Ends the client."""
        with self._closing:
            if not self._is_open:
                return
            self._is_open = False
        self._fetcher.close()
