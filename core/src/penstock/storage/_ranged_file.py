"""Files that are read by requests for ranges."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

from penstock.errors import RetriableError

__all__ = ["RangedFile", "checked"]


def checked(data: bytes, length: int, url: str) -> bytes:
    """Returns ``data``, the answer to a request for ``length`` bytes. Raises RetriableError for more or fewer."""
    if len(data) != length:
        raise RetriableError(f"{url}: {len(data)} bytes came where {length} were asked for")
    return data


class RangedFile(io.RawIOBase):
    """A file of ``size`` bytes. Each read is one call of ``read_range``, with an offset and a length, neither beyond
    the file's end.
    """

    def __init__(self, read_range: Callable[[int, int], bytes], size: int) -> None:
        super().__init__()
        self._read_range = read_range
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves to a position and returns it."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        """Returns the position of the next read."""
        return self._at

    def size(self) -> int:
        """Returns the bytes that the file has."""
        return self._size

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes, fewer only at the end. Raises what ``read_range`` raises."""
        left = max(0, self._size - self._at)
        length = left if size < 0 else min(size, left)
        if not length:
            return b""
        data = self._read_range(self._at, length)
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Reads into ``buffer``. Raises as :meth:`read` does."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
