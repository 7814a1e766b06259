"""Input files: their bytes, decompressed where the name says so."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Any

from penstock.storage import Storage
from penstock_filesystem.formats._compression import decompressed

__all__ = ["InputFile", "Utf8Stream", "is_line_safe"]

_TRANSCODE_BYTES = 1 << 20
#: Encodings in which the byte 0x0A may be a part of another character.
_NOT_LINE_SAFE = ("utf_16", "utf-16", "utf_32", "utf-32", "utf-7", "utf_7", "cp037", "cp500", "cp1026", "cp1140", "hz")


def is_line_safe(encoding: str) -> bool:
    """Returns whether a byte 0x0A is always a line end, so that a file can be cut there without decoding it."""
    return not encoding.startswith(_NOT_LINE_SAFE) and "\n".encode(encoding) == b"\n"


@dataclass(frozen=True)
class InputFile:
    """A file to read. ``size`` is what it has now. It holds no handle: the caller closes the streams."""

    storage: Storage
    path: str
    size: int

    @property
    def url(self) -> str:
        """The path as a user writes it."""
        return self.storage.url(self.path)

    def random_access(self) -> Any:
        """Opens the raw bytes for reading with ``seek``."""
        return self.storage.fs.open_input_file(self.path)

    def stream(self) -> Any:
        """Opens the bytes in order, decompressed by the name's suffix. ``read(n)`` gives fewer only at the end."""
        return decompressed(self.storage, self.path)


class Utf8Stream:
    """A stream of another encoding as UTF-8, for encodings whose bytes cannot be cut at line ends."""

    def __init__(self, stream: Any, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        self._waiting = bytearray()
        self._ended = False

    def read(self, size: int) -> bytes:
        """Returns the next ``size`` bytes, fewer only at the end. Raises UnicodeDecodeError."""
        while len(self._waiting) < size and not self._ended:
            data = self._stream.read(_TRANSCODE_BYTES)
            self._ended = not data
            self._waiting += self._decoder.decode(bytes(data), final=self._ended).encode()
        taken = bytes(self._waiting[:size])
        del self._waiting[:size]
        return taken

    def close(self) -> None:
        """Closes the stream below."""
        self._stream.close()
