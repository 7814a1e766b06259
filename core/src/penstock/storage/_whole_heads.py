"""HTTP answers that are cut off in their head are failures.

Python takes the end of a connection for the end of the head, and what follows for an empty body: a list without
entries, an object without bytes, a number that lacks its end.
"""

from __future__ import annotations

import http.client
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

__all__ = ["careful_session"]


class _Lines:
    """A stream that remembers the line that was read last."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.last = b""

    def readline(self, *limit: int) -> bytes:
        self.last = self.stream.readline(*limit)
        return self.last

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Response(http.client.HTTPResponse):
    def begin(self) -> None:
        """Reads the head. Raises ConnectionError if it has no end."""
        lines = self.fp = _Lines(self.fp)  # type: ignore[assignment]
        super().begin()
        if lines.last not in (b"\r\n", b"\n"):
            raise http.client.RemoteDisconnected("the answer was cut off in its head")
        self.fp = lines.stream


class _Connection(HTTPConnection):
    response_class = _Response


class _SecureConnection(HTTPSConnection):
    response_class = _Response


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *given: Any, **more: Any) -> None:
        super().init_poolmanager(*given, **more)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}


def careful_session() -> requests.Session:
    """Returns a session that makes each request once, and raises requests' ConnectionError for a head without end."""
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(max_retries=0))
    return session
