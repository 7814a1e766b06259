"""Where reading one range has got to, and what was fetched of it ahead of the reader."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.errors import BadDataError
from penstock_kafka.client.codec import Aborted, BatchChunks, Decoded, decode

__all__ = ["FetchPosition", "FetchedBatches"]


class FetchedBatches:
    """Whole batches of one partition, as they were fetched. ``plain``: those that can be decoded now.

    A channel makes it; from then on it belongs to the reader's thread. A batch has at most ``most_bytes`` when it is
    decompressed.
    """

    def __init__(
        self, batches: memoryview, aborted: Sequence[tuple[int, int]], *, is_compressed: bool, most_bytes: int
    ) -> None:
        self.aborted = Aborted(aborted)
        #: What it takes of the queue.
        self.queued_bytes = len(batches)
        self._chunks = BatchChunks(batches, most_bytes=most_bytes) if is_compressed else None
        self._plain: memoryview | bytearray | None = None if is_compressed else batches

    @property
    def plain(self) -> memoryview | bytearray:
        """Raises ValueError for batches that can't be decompressed."""
        if self._plain is None:
            assert self._chunks is not None
            self._plain = self._chunks.next()
        return self._plain

    def advance(self) -> bool:
        """Drops what is plain. Returns whether there is more."""
        self._plain = None
        return self._chunks is not None and not self._chunks.is_done


@dataclass(slots=True, eq=False)
class FetchPosition:
    """One range that is being read.

    It belongs to the channel of ``node``, or to the finder while that is ``None``: no other thread fetches for it or
    says when to continue. ``node`` and ``fetched`` change only under the fetcher's lock, as the reader looks at both.
    """

    index: int
    topic: str
    #: Empty: whichever has the name.
    topic_id: str
    partition: int
    end_offset: int
    #: Where to fetch next. Written by the channel of the partition's leader.
    fetch_offset: int
    #: What to hand over next. The reader's own.
    next_offset: int
    #: Who leads the partition, as far as we know.
    node: int | None = None
    #: Channels append, the reader takes from the left.
    fetched: deque[FetchedBatches] = field(default_factory=deque)
    #: Nothing is done for the range before this time (of the monotonic clock).
    not_before: float = 0.0
    #: Since when the partition has not been there; 0 if it is there. The finder's own.
    missing_since: float = 0.0

    def read_on(self, *, headers: bool, max_rows: int, max_bytes: int) -> tuple[Decoded, bool]:
        """Returns the next records of the first that was fetched, and whether those were its last. The reader's.

        Raises BadDataError for batches that are not what they should be.
        """
        batches = self.fetched[0]
        try:
            decoded = decode(
                batches.plain,
                batches.aborted,
                self.next_offset,
                self.end_offset,
                headers=headers,
                max_rows=max_rows,
                max_bytes=max_bytes,
            )
        except ValueError as error:
            where = f"topic '{self.topic}' partition {self.partition}"
            raise BadDataError(f"{where} can't be read from offset {self.next_offset} on: {error}") from error
        self.next_offset = max(self.next_offset, decoded.next)
        return decoded, not decoded.more and not batches.advance()
