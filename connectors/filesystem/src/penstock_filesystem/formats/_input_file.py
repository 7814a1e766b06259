"""Input files: their bytes, decompressed where the name says so."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.storage import Storage
from penstock_filesystem.formats._compression import BUFFER_BYTES, decompressed
from penstock_filesystem.formats._streams import PieceStream
from penstock_filesystem.formats._whole_file import WholeFile, check_size

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

    def random_access(self) -> pa.NativeFile:
        """Opens the raw bytes for a reader that asks for several ranges at once, and notices bytes that are not the
        file's (see :meth:`penstock.storage.Storage.open_file`). Raises RetriableError if it has another size.
        """
        file = self.storage.fs.open_input_file(self.path)
        check_size(file, self.size, self.url)
        return file

    def checked_access(self) -> pa.NativeFile:
        """Opens the raw bytes, which are the file's, as a file of Arrow's."""
        return pa.PythonFile(self.raw(), mode="r")

    def raw(self) -> WholeFile:
        """Opens the raw bytes. Each read is a request to a store."""
        return WholeFile(self.storage.open_file(self.path), self.size, self.url)

    def buffered(self) -> io.BufferedReader:
        """Opens the raw bytes for small reads."""
        return io.BufferedReader(self.raw(), BUFFER_BYTES)

    def stream(self) -> Any:
        """Opens the bytes in order, decompressed by the name's suffix. ``read(n)`` gives fewer only at the end."""
        return decompressed(self.raw, self.path)


class Utf8Stream(PieceStream):
    """A stream of another encoding as UTF-8, for encodings whose bytes cannot be cut at line ends.

    Raises UnicodeDecodeError.
    """

    def __init__(self, stream: Any, encoding: str) -> None:
        super().__init__(stream, _transcoded(stream, encoding))


def _transcoded(stream: Any, encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    while data := stream.read(_TRANSCODE_BYTES):
        yield decoder.decode(bytes(data)).encode()
    yield decoder.decode(b"", final=True).encode()
