"""Appending to one segment: every block once, also over broken connections."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import RetriableError
from penstock.retry import NO_RETRIES, Retries
from penstock.system import system
from penstock_pravega.client._connection import Connection
from penstock_pravega.client._segment_stores import SegmentStores, ask_info, next_request
from penstock_pravega.client._wire import APPEND_SETUP, DATA_APPENDED, Refused, append_block, refusal, setup_append

__all__ = ["Block", "SegmentAppender"]

#: Bytes that may be in flight.
_WINDOW = 8 << 20


@dataclass(frozen=True)
class Block:
    """Framed events; ``last`` is the number of the last of them."""

    last: int
    events: int
    data: bytes | memoryview


class SegmentAppender:
    """Appends as one writer, which no other knows. One thread uses it. Memory: 8 MiB and one block.

    After a connection broke, the server tells the last event that it has of this writer; what it has is dropped here,
    and the rest is sent again. (It would append a repeated block again.) An older connection whose bytes arrive
    late is fenced off by the newer one. What keeps failing is tried again as ``retries`` says.
    """

    def __init__(
        self,
        stores: SegmentStores,
        stream: str,
        segment: int,
        name: str,
        retries: Retries | None = None,
    ) -> None:
        self._stores = stores
        self._retries = retries or Retries(NO_RETRIES)
        self._stream = stream
        self._segment = segment
        self.name = name
        self._writer = uuid.uuid4().bytes
        self._sent = 0
        self._under_way: deque[Block] = deque()
        self._bytes_under_way = 0
        self._connection: Connection | None = None
        self._broke = False
        #: Bytes handed to :meth:`append` so far, and how many events.
        self.bytes = 0
        self.events = 0

    def append(self, data: bytes | memoryview, events: int) -> None:
        """Sends a block of at most 8 MiB and a bit. Returns before it is acknowledged.

        Raises NoSuchSegment, SegmentSealed (see :meth:`unacknowledged`), RetriableError.
        """
        self._sent += events
        block = Block(self._sent, events, data)
        self._under_way.append(block)
        self._bytes_under_way += len(data)
        self.bytes += len(data)
        self.events += events
        self._persist_until(lambda: self._bytes_under_way <= _WINDOW, block)

    def flush(self) -> None:
        """Returns when the segment store has acknowledged everything. Raises as :meth:`append`."""
        self._persist_until(lambda: not self._under_way)

    def unacknowledged(self) -> list[Block]:
        """Returns what is not known to be in the segment. After SegmentSealed: what is known not to be."""
        return list(self._under_way)

    def close(self) -> None:
        """Ends the connection. What was not acknowledged may or may not be there."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _persist_until(self, done: Callable[[], bool], fresh: Block | None = None) -> None:
        left = self._stores.settings.tries
        while True:
            before = len(self._under_way)
            try:
                if self._connection is None:
                    self._set_up()  # sends what is in flight, the fresh block too
                elif fresh is not None:
                    self._send(self._connection, fresh)
                fresh = None
                while not done():
                    self._receive(self._connection)
                self._retries.worked()
                return
            except (OSError, Refused, RetriableError) as error:
                self.close()
                self._broke = True
                fresh = None
                if len(self._under_way) < before:
                    left = self._stores.settings.tries
                    self._retries.worked()
                left -= 1
                self._recover(error, last=left <= 0)

    def _recover(self, error: Exception, *, last: bool) -> None:
        """Waits before another try. Raises what another one can't help, or if the time for them is over."""
        failure = error
        if not isinstance(error, RetriableError):  # else it is the controller's, which was asked several times
            try:
                self._stores.recover(error, self._stream, self._segment, last=last)
            except RetriableError as final:
                failure = final
            else:
                return
        system().sleep(self._retries.failed(failure))

    def _set_up(self) -> None:
        connection = self._stores.connect(self._stream, self._segment)
        try:
            token = self._stores.token(self._stream)
            if self._broke:
                # The segment of a transaction that ended: until it is removed, the segment store accepts a writer and
                # closes every connection at the first block. A question about the segment is answered correctly.
                ask_info(connection, self.name, token)
            connection.send(setup_append(next_request(), self._writer, self.name, token))
            kind, payload = connection.receive()
            if kind != APPEND_SETUP:
                raise refusal(kind, payload)
            payload.take("q")
            payload.text()
            payload.raw(16)
            self._acknowledged(payload.take("q"))  # below zero: nothing of this writer yet
            self._send_again(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _send_again(self, connection: Connection) -> None:
        """The first block alone, then the others.

        A segment store that refuses a block (the segment was sealed) closes the connection at the next one, and a
        client that is still sending can't read the refusal.
        """
        blocks = list(self._under_way)
        for block in blocks:
            self._send(connection, block)
            while len(blocks) > 1 and self._under_way and self._under_way[0] is blocks[0]:
                self._receive(connection)

    def _send(self, connection: Connection, block: Block) -> None:
        connection.send(append_block(next_request(), self._writer, block.events, block.last, block.data))

    def _receive(self, connection: Connection | None) -> None:
        assert connection is not None
        kind, payload = connection.receive()
        if kind != DATA_APPENDED:
            raise refusal(kind, payload)
        payload.raw(16)
        self._acknowledged(payload.take("q"))

    def _acknowledged(self, last: int) -> None:
        while self._under_way and self._under_way[0].last <= last:
            self._bytes_under_way -= len(self._under_way.popleft().data)
