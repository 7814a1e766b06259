"""Reads ranges of segments: whole events, and what is done about those that are gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import BadDataError, RetriableError
from penstock.metrics import Metrics
from penstock.source import RecordsBySplits, SplitReader
from penstock.source.log import LossPolicy
from penstock_pravega.client import (
    BrokenEvents,
    ControllerSettings,
    NoSuchSegment,
    RangeReader,
    SegmentStores,
    SegmentTruncated,
    event_offsets,
    to_array,
)
from penstock_pravega.source._split import SegmentRange

__all__ = ["Block", "EventBlock", "Pieces", "PravegaSplitReader"]


@dataclass(frozen=True)
class Pieces:
    """Bytes of a stream without events, from ``start`` on, in pieces of ``size`` (the last one may be smaller)."""

    start: int
    data: bytearray
    size: int

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each piece begins in the segment."""
        return self.start + np.arange(0, len(self.data), self.size, dtype=np.int64)

    def values(self) -> pa.Array:
        """Returns the pieces, over the same memory."""
        bounds = np.append(np.arange(0, len(self.data), self.size), len(self.data)).astype(np.int32)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)


@dataclass(frozen=True)
class EventBlock:
    """Whole events: ``data`` as they are in the segment from ``start`` on, ``offsets`` of them in ``data``."""

    start: int
    data: bytearray
    offsets: npt.NDArray[np.int64]

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each event begins in the segment."""
        return self.start + self.offsets[:-1]

    def values(self) -> pa.Array:
        """Returns the data of each event."""
        return to_array(self.data, self.offsets)


Block: TypeAlias = "EventBlock | Pieces"


class PravegaSplitReader(SplitReader[Block, SegmentRange]):
    """See :class:`penstock.source.SplitReader`. An element is about 1 MiB of events, or one larger event; or, with
    ``piece_bytes``, pieces of that size (the last of a split has fewer), counted from the start of the split.

    Metric ``bytes_read``: of the segments.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        metrics: Metrics,
        *,
        fail_on_data_loss: bool,
        piece_bytes: int | None = None,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._losses = LossPolicy(fail=fail_on_data_loss, metrics=metrics)
        self._piece_bytes = piece_bytes
        self._splits: deque[SegmentRange] = deque()
        self._stores: SegmentStores | None = None
        self._reader: RangeReader | None = None
        self._left = bytearray()
        self._stopped = False

    def handle_splits_changes(self, splits: Sequence[SegmentRange]) -> None:
        """Queues splits after those that are left."""
        self._splits.extend(splits)

    def fetch(self) -> RecordsBySplits[Block]:
        """Reads the next piece of the current split, and skips what was truncated if that is allowed."""
        if not self._splits or self._stopped:
            return RecordsBySplits()
        split = self._splits[0]
        try:
            piece = self._reading(split).read()
        except SegmentTruncated as error:
            return self._skip_to(split, error.start)
        except NoSuchSegment:
            return self._skip_to(split, split.end)
        except RetriableError:
            if self._stopped:
                return RecordsBySplits()
            raise
        if piece is None:
            return self._finish(split)
        self._metrics.add("bytes_read", len(piece))
        if self._piece_bytes is None:
            return self._whole_events(split, piece)
        self._left += piece
        return self._pieces(split, self._piece_bytes)

    def _reading(self, split: SegmentRange, start: int | None = None) -> RangeReader:
        if self._stores is None:
            self._stores = SegmentStores(self._settings, writes=False)
        if self._reader is None:
            begin = split.start if start is None else start
            self._reader = RangeReader(self._stores, split.stream, split.segment, begin, split.end)
        return self._reader

    def _pieces(self, split: SegmentRange, size: int) -> RecordsBySplits[Block]:
        """Returns those that are whole; the rest of a split is one, too."""
        assert self._reader is not None
        end = len(self._left) if self._reader.at >= split.end else len(self._left) // size * size
        pieces = Pieces(self._reader.at - len(self._left), self._left[:end], size)
        self._left = self._left[end:]
        return RecordsBySplits([(split.split_id, pieces)] if end else [])

    def _whole_events(self, split: SegmentRange, piece: bytearray) -> RecordsBySplits[Block]:
        assert self._reader is not None
        # In place: an event may have a thousand pieces, and to copy what is there with each would take hours.
        self._left += piece
        data = self._left
        start = self._reader.at - len(data)
        try:
            offsets = event_offsets(data)
        except BrokenEvents as error:
            raise BadDataError(
                f"{split}: {error}, counted from {start}. The stream holds something else than events, or the position "
                "is none of an event's (framing=none reads bytes that are no events)"
            ) from None
        end = int(offsets[-1])
        if not end:
            return RecordsBySplits()
        self._left = data[end:]
        return RecordsBySplits([(split.split_id, EventBlock(start, data, offsets))])

    def _finish(self, split: SegmentRange) -> RecordsBySplits[Block]:
        if self._left:
            raise BadDataError(f"{split}: it ends within an event. The end of the range is none of an event's")
        self._splits.popleft()
        self._reader = None
        return RecordsBySplits(finished_splits=[split.split_id])

    def _skip_to(self, split: SegmentRange, start: int) -> RecordsBySplits[Block]:
        """Continues after what was truncated, if that is allowed."""
        at = self._reader.at - len(self._left) if self._reader else split.start
        self._losses.report(f"{split}: its bytes from {at} on, up to {min(start, split.end)}, were truncated")
        self._left, self._reader = bytearray(), None
        self._reading(split, min(start, split.end))
        return RecordsBySplits()

    def wake_up(self) -> None:
        """Closes the connections, so that a blocked :meth:`fetch` returns. Called from another thread."""
        self._stopped = True
        if self._stores is not None:
            self._stores.close()

    def close(self) -> None:
        """Ends the connections."""
        if self._stores is not None:
            self._stores.close()
