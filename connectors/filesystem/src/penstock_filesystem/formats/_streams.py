"""Streams over other streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["PieceStream", "StreamOver"]


class StreamOver:
    """A stream that is closed with the one below it."""

    def __init__(self, below: Any) -> None:
        self._below = below

    def close(self) -> None:
        """Closes the stream below."""
        self._below.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PieceStream(StreamOver):
    """The bytes of ``pieces``, which are made of those of the stream below."""

    def __init__(self, below: Any, pieces: Iterator[bytes]) -> None:
        super().__init__(below)
        self._pieces = pieces
        self._waiting = bytearray()

    def read(self, size: int) -> bytes:
        """Returns the next ``size`` bytes, fewer only at the end. Raises what making the pieces raises."""
        while len(self._waiting) < size and (piece := next(self._pieces, None)) is not None:
            self._waiting += piece
        taken = bytes(self._waiting[:size])
        del self._waiting[:size]
        return taken
