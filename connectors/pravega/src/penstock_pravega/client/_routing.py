"""Which segment an event with a routing key goes to: as Pravega's own clients decide, so that order holds among all."""

from __future__ import annotations

from collections.abc import Mapping

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock_pravega.client._controller import KeyRange

__all__ = ["SegmentRouter", "key_position"]


def _java_hash(text: str) -> int:
    value = 0
    for character in text:
        value = value * 31 + ord(character) & 0xFFFFFFFF
    return value


_SEED = _java_hash("EventRouter")
_FRACTION = (1 << 52) - 1


def key_position(key: str) -> float:
    """Returns a number in [0, 1): 52 bits of the low half of the key's 128-bit Murmur3 hash (of UTF-16-LE)."""
    low = mmh3.hash64(key.encode("utf-16-le", "surrogatepass"), _SEED, x64arch=True, signed=False)[0]
    return (low >> 12 & _FRACTION) / (1 << 52)


class SegmentRouter:
    """Sends rows to the segments whose key ranges it was given. One thread uses it."""

    def __init__(self, ranges: Mapping[int, KeyRange]) -> None:
        self.segments = sorted(ranges, key=lambda segment: ranges[segment].low)
        self._highs = np.array([ranges[segment].high for segment in self.segments])
        self._next = 0

    def route(self, keys: pa.Array | None, rows: int) -> list[tuple[int, pa.Array | None]]:
        """Segment → the indexes of its rows (``None``: all of them). Keys are strings.

        Rows without keys go to one segment, the next time to the next; a null among keys counts as the empty key.
        """
        if len(self.segments) == 1:
            return [(self.segments[0], None)]
        if keys is None:
            self._next += 1
            return [(self.segments[self._next % len(self.segments)], None)]
        where = np.searchsorted(self._highs, self._positions(keys), side="right")
        where = np.minimum(where, len(self.segments) - 1)
        if not len(where):
            return []
        order = np.argsort(where, kind="stable")
        starts = np.searchsorted(where[order], np.arange(len(self.segments) + 1))
        return [
            (segment, pa.array(order[starts[at] : starts[at + 1]]))
            for at, segment in enumerate(self.segments)
            if starts[at] < starts[at + 1]
        ]

    @staticmethod
    def _positions(keys: pa.Array) -> npt.NDArray[np.float64]:
        distinct = pc.dictionary_encode(keys.fill_null(""))
        # Row by row, but only once for each distinct key: the hash has no vector form.
        hashed = np.array([key_position(key) for key in distinct.dictionary.to_pylist()])
        return np.asarray(hashed[distinct.indices.to_numpy(zero_copy_only=False)])
