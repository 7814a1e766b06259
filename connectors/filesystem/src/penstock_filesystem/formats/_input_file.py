"""Input files: their bytes, decompressed where the name says so."""

from __future__ import annotations

import codecs
import lzma
from dataclasses import dataclass
from typing import Any

from penstock.storage import Storage

__all__ = ["InputFile", "Utf8Stream", "is_compressed", "is_line_safe"]

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".xz": "xz"}
_TRANSCODE_BYTES = 1 << 20
#: Encodings in which the byte 0x0A may be a part of another character.
_NOT_LINE_SAFE = ("utf_16", "utf-16", "utf_32", "utf-32", "utf-7", "utf_7", "cp037", "cp500", "cp1026", "cp1140", "hz")


def _codec(path: str) -> str | None:
    return next((codec for suffix, codec in _CODECS.items() if path.lower().endswith(suffix)), None)


def is_compressed(path: str) -> bool:
    """Returns whether the name's suffix says that the file is compressed as a whole."""
    return _codec(path) is not None


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
        codec = _codec(self.path)
        if codec == "xz":
            return lzma.open(self.storage.fs.open_input_stream(self.path, compression=None))
        opened = self.storage.fs.open_input_stream(self.path, compression=codec)
        return opened if codec is None else _Decompressed(opened)


class _Decompressed:
    """A compressed stream, read into memory of our own: what pyarrow's ``read`` allocates is never freed if the bytes
    are broken, and a task that skips corrupt files may meet thousands.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        memory = bytearray(size)
        count = self._stream.readinto(memory)
        return bytes(memoryview(memory)[:count])

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> _Decompressed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
