"""What fastavro reads of a file, within limits: it takes each length for true, and decompresses whole blocks."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

__all__ = ["BoundedStream"]

#: Of a block, decompressed. Writers make them of some kilobytes to a few megabytes.
MOST_BLOCK_BYTES = 1 << 28
#: What fastavro asks for at the end of a file, to see that it is one.
_HEAD_BYTES = 64
#: Shorter reads are of lengths and marks.
_LEAST_BLOCK = 17
_PIECE_BYTES = 1 << 20
#: Codec → how many times more a byte stands for at most, where that is a number to trust.
_MOST_TIMES = {"null": 1, "deflate": 1032, "snappy": 22}


class BoundedStream:
    """The ``size`` bytes of a file. Raises EOFError for a length that is not in them, ValueError for a block that
    would be too large once it is decompressed. ``codec`` is set when the file's head is read.
    """

    def __init__(self, stream: Any, size: int) -> None:
        self._stream = stream
        self._left = size
        self.codec = "null"

    def read(self, size: int) -> bytes:
        """Returns fewer bytes at the end."""
        if not 0 <= size <= max(self._left, _HEAD_BYTES):
            raise EOFError(f"{size} bytes are wanted, and {self._left} are left")
        data: bytes = self._stream.read(size)
        self._left -= len(data)
        if size >= _LEAST_BLOCK and len(data) * _MOST_TIMES.get(self.codec, 1 << 30) > MOST_BLOCK_BYTES:
            self._check(data)
        return data

    def _check(self, data: bytes) -> None:
        found = 0
        for piece in _pieces(self.codec, data):
            found += piece
            if found > MOST_BLOCK_BYTES:
                raise ValueError(f"a block has more than {MOST_BLOCK_BYTES} bytes once it is decompressed")


def _pieces(codec: str, data: bytes) -> Iterator[int]:
    """Yields the sizes of pieces that are decompressed and dropped; none for what fastavro will refuse anyway."""
    try:
        if codec == "deflate":
            inflater = zlib.decompressobj(-15)
            while piece := inflater.decompress(data, _PIECE_BYTES):
                yield len(piece)
                data = inflater.unconsumed_tail
        elif codec in ("bzip2", "xz"):
            stream: Any = bz2.BZ2Decompressor() if codec == "bzip2" else lzma.LZMADecompressor()
            while not stream.eof and (piece := stream.decompress(data, _PIECE_BYTES)):
                yield len(piece)
                data = b""
        elif codec == "zstandard":
            memory = bytearray(_PIECE_BYTES)
            with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as opened:
                while count := opened.readinto(memory):
                    yield count
        else:  # snappy, which can't have more, and what has no limit of its own
            yield len(data) * _MOST_TIMES.get(codec, 1)
    except (zlib.error, OSError, EOFError, lzma.LZMAError):
        return
