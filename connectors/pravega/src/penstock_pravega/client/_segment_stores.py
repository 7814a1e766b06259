"""The segment stores of a cluster: finding the one that has a segment, connections, tokens, another try."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import count
from typing import TypeVar

from penstock.errors import BadConfigurationError, FatalError, RetriableError
from penstock.per_process import PerProcess
from penstock_pravega.client._connection import Connection
from penstock_pravega.client._controller import Controller
from penstock_pravega.client._endpoint import ControllerSettings
from penstock_pravega.client._names import segment_name
from penstock_pravega.client._wire import (
    SEGMENT_INFO,
    AuthenticationFailed,
    InvalidEventNumber,
    NoSuchSegment,
    Refused,
    SegmentInfo,
    SegmentSealed,
    SegmentTruncated,
    WrongHost,
    get_info,
    parse_info,
    refusal,
)

__all__ = ["SegmentStores", "controller_of"]

_log = logging.getLogger("penstock.pravega")
_PAUSE_S = 0.2
_requests = count(1)
#: Answers that say something about the segment, and not about how it was asked for.
_FINAL = (NoSuchSegment, SegmentSealed, SegmentTruncated)

AnswerT = TypeVar("AnswerT")

_controllers = PerProcess(Controller)


def controller_of(settings: ControllerSettings) -> Controller:
    """This process's controller for ``settings``, kept. Not to be closed."""
    return _controllers.get(settings)


class SegmentStores:
    """Connections of one thread, at most one for each segment store. :meth:`close` may be called from another.

    A stream is ``scope/stream`` here, ``segment`` a segment's id.
    """

    def __init__(self, settings: ControllerSettings) -> None:
        self.settings = settings
        self.controller = controller_of(settings)
        self._tls = settings.tls_context()
        self._addresses: dict[tuple[str, int], tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], Connection] = {}
        self._tokens: dict[str, str] = {}
        self._closed = False

    def info(self, stream: str, segment: int, name: str | None = None) -> SegmentInfo:
        """Where a segment begins and ends; with ``name`` one of its transactions. Raises NoSuchSegment."""

        def ask() -> SegmentInfo:
            connection = self.connection(stream, segment)
            return ask_info(connection, name or segment_name(stream, segment), self.token(stream))

        return self.persist(ask, stream, segment)

    def tail(self, stream: str) -> dict[int, int]:
        """Where each segment that is open now ends; one may have been sealed meanwhile. Raises as :meth:`info` does."""
        scope, _, name = stream.partition("/")
        return {segment: self.info(stream, segment).end for segment in self.controller.current_segments(scope, name)}

    def persist(self, question: Callable[[], AnswerT], stream: str, segment: int) -> AnswerT:
        """Asks again, of whom has the segment then, until there is an answer or the tries are used up.

        Raises the refusals that are about the segment itself, else RetriableError or BadConfigurationError.
        """
        for left in reversed(range(self.settings.tries)):
            try:
                return question()
            except (OSError, Refused) as error:
                self.recover(error, stream, segment, last=not left)
        raise AssertionError

    def recover(self, error: Exception, stream: str, segment: int, *, last: bool) -> None:
        """After a failure: gets ready for another try, or raises if there is no hope (or no try left)."""
        self.forget(stream, segment)
        if self._closed:
            raise RetriableError(f"{segment_name(stream, segment)}: the reader was closed") from None
        if isinstance(error, _FINAL):
            raise error
        if isinstance(error, AuthenticationFailed):
            self._tokens.pop(stream, None)
            if not error.expired and last:
                raise BadConfigurationError(f"{stream}: {error}; check the credentials") from None
        elif isinstance(error, Refused) and not isinstance(error, (WrongHost, InvalidEventNumber)):
            raise FatalError(f"{segment_name(stream, segment)}: {error}") from None
        if last:
            raise RetriableError(f"{segment_name(stream, segment)}: {error or type(error).__name__}") from error
        _log.info("%s: %s; trying again", segment_name(stream, segment), error)
        if not isinstance(error, AuthenticationFailed):
            time.sleep(_PAUSE_S)

    def connection(self, stream: str, segment: int) -> Connection:
        """A connection to whom has the segment."""
        address = self.address(stream, segment)
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = self._connections[address] = self.connect(stream, segment)
        return connection

    def connect(self, stream: str, segment: int) -> Connection:
        """A connection of the caller's own to whom has the segment."""
        host, port = self.address(stream, segment)
        return Connection(host, port, self.settings.timeout_s, self._tls)

    def address(self, stream: str, segment: int) -> tuple[str, int]:
        """Who has the segment, as far as is known."""
        key = (stream, segment)
        if key not in self._addresses:
            scope, _, name = stream.partition("/")
            self._addresses[key] = self.controller.locate(scope, name, segment)
        return self._addresses[key]

    def token(self, stream: str) -> str:
        """What the segment stores want to see for ``stream``; not asked for without credentials."""
        if self.settings.credentials is None:
            return ""
        if stream not in self._tokens:
            scope, _, name = stream.partition("/")
            self._tokens[stream] = self.controller.delegation_token(scope, name)
        return self._tokens[stream]

    def forget(self, stream: str, segment: int) -> None:
        """Nothing is as it was: the segment is looked for anew, by a new connection."""
        address = self._addresses.pop((stream, segment), None)
        connection = self._connections.pop(address, None) if address else None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Ends the connections."""
        self._closed = True
        for connection in list(self._connections.values()):
            connection.close()


def ask_info(connection: Connection, name: str, token: str) -> SegmentInfo:
    """What the segment store at the other end says about a segment. Raises its refusals, among them NoSuchSegment."""
    connection.send(get_info(next_request(), name, token))
    kind, payload = connection.receive()
    if kind != SEGMENT_INFO:
        raise refusal(kind, payload)
    return parse_info(payload)


def next_request() -> int:
    """A number that no other request of this process has."""
    return next(_requests)
