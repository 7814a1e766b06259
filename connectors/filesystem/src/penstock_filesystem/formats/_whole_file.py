"""Files of which a store may send less than they have, without an error."""

from __future__ import annotations

import io
import os
from typing import Any

import pyarrow as pa

from penstock.errors import RetriableError

__all__ = ["WholeFile", "check_size"]


def check_size(file: pa.NativeFile, size: int, url: str) -> None:
    """Closes a file that does not have ``size`` bytes, and raises RetriableError: it changed, or an answer was cut."""
    found = file.size()
    if found != size:
        file.close()
        raise RetriableError(f"{url} has {size} bytes, and {found} when it is opened: an answer was cut off")


class WholeFile(io.RawIOBase):
    """The bytes of an open file of Arrow's. ``read`` gives fewer than it is asked for only at the file's end.

    Raises RetriableError where the store sends fewer. Closes the file.
    """

    def __init__(self, file: pa.NativeFile, size: int, url: str) -> None:
        super().__init__()
        check_size(file, size, url)
        self._file = file
        self._size = size
        self._url = url
        self._at = 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True."""
        return True

    def tell(self) -> int:
        """Returns the position of the next read."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves to a position and returns it."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._file.seek(self._at)
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes, by one read of the file below. Raises RetriableError if fewer come."""
        left = max(0, self._size - self._at)
        wanted = left if size < 0 else min(size, left)
        data = bytes(self._file.read(wanted)) if wanted else b""
        if len(data) < wanted:
            raise RetriableError(f"{self._url}: {len(data)} bytes came where {wanted} are: an answer was cut off")
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Reads into ``buffer``. Raises as :meth:`read` does."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Closes the file below."""
        if not self.closed:
            self._file.close()
        super().close()
