"""The segment stores of a cluster: finds the one that has a segment, keeps connections and tokens, and retries."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import TypeVar

from penstock.errors import BadConfigurationError, FatalError, RetriableError
from penstock.per_process import PerProcess
from penstock.printable import get_logger
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

_log = get_logger("penstock.pravega")
_PAUSE_S = 0.2
_requests = count(1)
#: Refusals that concern the segment and not how it was asked for: another try can't help.
_FINAL = (NoSuchSegment, SegmentSealed, SegmentTruncated)

AnswerT = TypeVar("AnswerT")

_controllers = PerProcess(Controller, close=Controller.close, files=lambda settings: settings.files)


def controller_of(settings: ControllerSettings) -> Controller:
    """Returns this process's controller for ``settings``, which is shared: ask for it again for the next call.

    It is closed some minutes after the last one who asked, so that a call is never cut off, and when the authorities'
    certificates have changed.
    """
    return _controllers.get(settings)


class SegmentStores:
    """Connections of one thread, at most one for each segment store. :meth:`close` may be called from another.

    A stream is ``scope/stream`` here, ``segment`` a segment's id. Without ``writes`` a permission to read is enough.
    """

    def __init__(self, settings: ControllerSettings, *, writes: bool = True) -> None:
        self.settings = settings
        self._writes = writes
        self._addresses: dict[tuple[str, int], tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], Connection] = {}
        self._tokens: dict[str, str] = {}
        self._closed = False

    @property
    def controller(self) -> Controller:
        """The cluster's controller, for one call."""
        return controller_of(self.settings)

    def info(self, stream: str, segment: int, name: str | None = None) -> SegmentInfo:
        """Asks where a segment, or the transaction segment ``name``, begins and ends. Raises NoSuchSegment."""

        def ask() -> SegmentInfo:
            connection = self.connection(stream, segment)
            return ask_info(connection, name or segment_name(stream, segment), self.token(stream))

        return self.retrying(ask, stream, segment)

    def tail(self, stream: str) -> dict[int, int]:
        """Asks where each open segment ends; one may be sealed meanwhile. Raises as :meth:`info` does."""
        scope, _, name = stream.partition("/")
        return {segment: self.info(stream, segment).end for segment in self.controller.current_segments(scope, name)}

    def retrying(self, call: Callable[[], AnswerT], stream: str, segment: int) -> AnswerT:
        """Makes ``call`` until it succeeds or the tries are used up. Looks the segment up again after each failure.

        Raises the refusals that concern the segment itself, else RetriableError or BadConfigurationError.
        """
        for left in reversed(range(self.settings.tries)):
            try:
                return call()
            except (OSError, Refused) as error:
                self.recover(error, stream, segment, last=not left)
        raise AssertionError

    def recover(self, error: Exception, stream: str, segment: int, *, last: bool) -> None:
        """Prepares another try after ``error``, or raises if another try can't help or none is left."""
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
        """Returns the connection to the store that has the segment; opens it if needed."""
        address = self.address(stream, segment)
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = self._connections[address] = self.connect(stream, segment)
        return connection

    def connect(self, stream: str, segment: int) -> Connection:
        """Opens a connection of the caller's own to the store that has the segment."""
        host, port = self.address(stream, segment)
        return Connection(host, port, self.settings.timeout_s, self.settings.tls_context())

    def address(self, stream: str, segment: int) -> tuple[str, int]:
        """Returns host and port of the store that has the segment, from memory or the controller."""
        key = (stream, segment)
        if key not in self._addresses:
            scope, _, name = stream.partition("/")
            self._addresses[key] = self.controller.locate(scope, name, segment)
        return self._addresses[key]

    def token(self, stream: str) -> str:
        """Returns the token for ``stream``; empty without credentials."""
        if self.settings.credentials is None:
            return ""
        if stream not in self._tokens:
            scope, _, name = stream.partition("/")
            self._tokens[stream] = self.controller.delegation_token(scope, name, writes=self._writes)
        return self._tokens[stream]

    def forget(self, stream: str, segment: int) -> None:
        """Forgets where the segment is and closes the connection: both are looked up again."""
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
    """Asks the store at the other end about a segment. Raises its refusals, among them NoSuchSegment."""
    connection.send(get_info(next_request(), name, token))
    kind, payload = connection.receive()
    if kind != SEGMENT_INFO:
        raise refusal(kind, payload)
    return parse_info(payload)


def next_request() -> int:
    """Returns a number that no other request of this process has."""
    return next(_requests)
