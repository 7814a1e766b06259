"""HTTP answers that are cut off in their head are failures.

Python takes the end of a connection for the end of the head, and what follows for an empty body: a list without
entries, an object without bytes, a number that lacks its end.
"""

from __future__ import annotations

import http.client
from typing import Any

__all__ = ["careful_pools"]


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


def careful_pools(http: type[Any], https: type[Any]) -> dict[str, type[Any]]:
    """Returns such pools of urllib3, by scheme, that raise its ProtocolError for an answer whose head has no end."""
    return {scheme: _careful(pool) for scheme, pool in (("http", http), ("https", https))}


def _careful(pool: type[Any]) -> type[Any]:
    connection = type("CarefulConnection", (pool.ConnectionCls,), {"response_class": _Response})
    return type("CarefulPool", (pool,), {"ConnectionCls": connection})
