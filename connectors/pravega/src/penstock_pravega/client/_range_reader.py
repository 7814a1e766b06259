"""Reading a range of a segment: exactly these bytes, each time."""

from __future__ import annotations

import struct

from penstock_pravega.client._connection import Connection
from penstock_pravega.client._names import segment_name
from penstock_pravega.client._segment_stores import SegmentStores, next_request
from penstock_pravega.client._wire import SEGMENT_READ, Payload, Refused, read_segment, refusal

__all__ = ["RangeReader"]

_CHUNK = 1 << 20
_IN_FLIGHT = 2
#: The server gives no fewer than this, if they are there.
_LEAST = 8


class RangeReader:
    """The bytes ``start`` to ``end`` of a segment, in order, in pieces of at most 1 MiB. One thread uses it.

    Close it if you stop before the end: answers in flight would be mistaken for those to the next request on the
    same connection.

    ``end`` must not be after the segment's own: a segment store answers to a question about the tail only when
    something is written there. Two requests are in flight at a time. Memory: three pieces.
    """

    def __init__(
        self, stores: SegmentStores, stream: str, segment: int, start: int, end: int, *, chunk: int = _CHUNK
    ) -> None:
        self._stores = stores
        self._stream = stream
        self._segment = segment
        self._name = segment_name(stream, segment)
        self._chunk = max(chunk, _LEAST)
        #: The next byte that :meth:`read` gives.
        self.at = start
        self.end = end
        self._asked: dict[int, int] = {}
        self._came: dict[int, bytearray] = {}
        self._connection: Connection | None = None

    def read(self) -> bytearray | None:
        """Returns the next bytes; ``None`` at the end.

        Raises NoSuchSegment and SegmentTruncated for what is gone, RetriableError if no segment store answers.
        """
        if self.at >= self.end:
            return None
        data = self._stores.retrying(self._receive_next, self._stream, self._segment)
        self.at += len(data)
        return data

    def close(self) -> None:
        """Ends the connection if answers are in flight on it, and does nothing else. May be called at any time."""
        if self._asked:
            self._asked.clear()
            self._stores.forget(self._stream, self._segment)

    def _receive_next(self) -> bytearray:
        try:
            connection = self._stores.connection(self._stream, self._segment)
            if connection is not self._connection:
                self._connection = connection
                self._asked.clear()
                self._came.clear()
            self._ask_ahead(connection)
            while self.at not in self._came:
                self._receive(connection)
                self._ask_ahead(connection)
            return self._came.pop(self.at)
        except BaseException:
            self._connection = None  # answers may still be in flight there
            raise

    def _ask_ahead(self, connection: Connection) -> None:
        known = {**self._asked, **{offset: len(data) for offset, data in self._came.items()}}
        position = self.at
        while len(self._asked) < _IN_FLIGHT and position < self.end:
            if position in known:
                position += known[position]
            elif len(known) > _IN_FLIGHT:
                return
            else:
                length = min(self._chunk, self.end - position)
                token = self._stores.token(self._stream)
                connection.send(read_segment(next_request(), self._name, position, length, token))
                self._asked[position] = known[position] = length

    def _receive(self, connection: Connection) -> None:
        """One answer: its offset says which request it is for. It may have fewer bytes; the rest is requested again."""
        kind, length = connection.receive_head()
        if kind != SEGMENT_READ:
            raise refusal(kind, Payload(connection.receive_bytes(length)))
        left = length - 16
        (name_length,) = struct.unpack(">H", connection.receive_bytes(2))
        left -= name_length
        if left < 0:
            raise ConnectionError(f"not an answer of Pravega's: it has {length} bytes, and a name of {name_length}")
        offset, _, _, size = struct.unpack_from(">q??i", connection.receive_bytes(name_length + 14), name_length)
        if not 0 <= size <= left:
            raise ConnectionError(f"not an answer of Pravega's: {size} bytes of a segment are to be in {left}")
        data = connection.receive_bytes(size)
        connection.receive_bytes(left - size)  # the request's number
        wanted = self._asked.pop(offset, None)
        if wanted is None:
            raise Refused(f"bytes at {offset} came that were not requested", self._name)
        if not size:
            raise ConnectionError(f"there are no bytes at {offset}, wanted up to {self.end}")
        del data[wanted:]
        self._came[offset] = data
