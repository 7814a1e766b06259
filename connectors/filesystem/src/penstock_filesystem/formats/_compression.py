"""Compressed files: which names say so, and their bytes in order."""

from __future__ import annotations

import io
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from penstock.serialization import snappy_length
from penstock_filesystem.formats._streams import PieceStream, StreamOver

__all__ = ["BUFFER_BYTES", "decompressed", "from_lz4", "from_snappy", "hadoop_blocks", "is_compressed"]

#: By the end of a file's name. Of the last three, Spark's writer writes what Hadoop's codecs make.
_CODECS = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".xz": "xz",
    ".lz4": "lz4",
    ".snappy": "snappy",
    ".deflate": "deflate",
}
#: What is not unpacked. Read as they are, such files would be rows of rubbish.
_NOT_UNPACKED = (".zip", ".7z", ".rar", ".br", ".lzo")
_LZ4_MAGIC = bytes.fromhex("04224d18")
#: Of a frame of LZ4: version 1, independent blocks of at most 4 MB, no checksums; the last byte is that header's own.
_LZ4_HEADER = _LZ4_MAGIC + bytes.fromhex("607073")
_LZ4_MOST = 4 << 20
#: A chunk of Hadoop's is 256 KiB, unless its configuration says otherwise.
_MOST_CHUNK_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20
#: Read at once from a file, which is a request to a store.
BUFFER_BYTES = 4 << 20


def _suffix(path: str) -> str:
    return next((suffix for suffix in (*_CODECS, *_NOT_UNPACKED) if path.lower().endswith(suffix)), "")


def is_compressed(path: str) -> bool:
    """Returns whether the name's suffix says that the file is compressed as a whole."""
    return _suffix(path) != ""


def decompressed(open_file: Callable[[], io.RawIOBase], path: str) -> Any:
    """Opens the bytes of a file in order, decompressed by its name. ``read(n)`` gives fewer only at the end.

    ``open_file`` opens the file. Raises ValueError for a file of a kind that is not unpacked. Reading raises OSError,
    EOFError, ValueError, ``lzma.LZMAError`` or ``zlib.error`` for bytes that are damaged. Memory: a chunk of the file.
    """
    suffix = _suffix(path)
    if suffix in _NOT_UNPACKED:
        raise ValueError(f"files whose name ends with {suffix} are not unpacked; unpack it, or compress it with gzip")
    codec = _CODECS.get(suffix)
    raw = open_file()
    if codec is None:
        return raw
    stream = io.BufferedReader(raw, BUFFER_BYTES)
    if codec in ("gzip", "bz2", "zstd") or (codec == "lz4" and _is_lz4_frame(stream)):
        return _OwnMemory(pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), codec))
    if codec in ("lz4", "snappy"):
        return PieceStream(stream, hadoop_blocks(stream.read, from_lz4 if codec == "lz4" else from_snappy))
    return PieceStream(stream, _inflated(stream.read)) if codec == "deflate" else lzma.open(stream)


class _OwnMemory(StreamOver):
    """A compressed stream, read into memory of our own: what pyarrow's ``read`` allocates is never freed if the bytes
    are broken, and a task that skips corrupt files may meet thousands.
    """

    def read(self, size: int) -> bytes:
        memory = bytearray(size)
        count = self._below.readinto(memory)
        return bytes(memoryview(memory)[:count])


def _inflated(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yields the pieces of zlib streams that follow each other, as Hadoop's default codec writes them."""
    inflater, data = None, read(_PIECE_BYTES)
    while data or inflater is not None:
        inflater = inflater or zlib.decompressobj()
        piece = inflater.decompress(data, _PIECE_BYTES)
        if piece:
            yield piece
        if inflater.eof:
            data, inflater = inflater.unused_data or read(_PIECE_BYTES), None
        elif not (data := inflater.unconsumed_tail or read(_PIECE_BYTES)) and not piece:
            raise EOFError("it ends inside of a compressed stream")


def hadoop_blocks(read: Callable[[int], bytes], decompress: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """Yields the pieces of a file that a codec of Hadoop has written: of each block its length without compression,
    then chunks until there are as many bytes, each with its length before it. Lengths are big-endian, of 32 bits.

    Source: Hadoop's BlockCompressorStream.
    """
    while head := read(4):
        left = _length(head)
        while left:
            size = _length(read(4))
            if not 0 < size <= _MOST_CHUNK_BYTES:
                raise ValueError(f"it is not in the framing of Hadoop: a chunk of {size} bytes")
            chunk = read(size)
            piece = decompress(chunk) if len(chunk) == size else b""
            if not 0 < len(piece) <= left:
                raise EOFError(f"it ends inside of a chunk, or is damaged: {len(piece)} bytes where {left} are left")
            left -= len(piece)
            yield piece


def _length(data: bytes) -> int:
    if len(data) < 4:
        raise EOFError("it ends inside of a block")
    (length,) = struct.unpack(">i", data)
    if length < 0:
        raise ValueError(f"it is not in the framing of Hadoop: a block of {length} bytes")
    return int(length)


def _is_lz4_frame(stream: Any) -> bool:
    """Returns whether a file begins as the command ``lz4`` writes it. Hadoop's own framing begins otherwise."""
    return bool(stream.peek(len(_LZ4_MAGIC))[: len(_LZ4_MAGIC)] == _LZ4_MAGIC)


def from_lz4(chunk: bytes) -> bytes:
    """A chunk does not say how many bytes it becomes. As a block of a frame, Arrow counts them."""
    memory = bytearray(_LZ4_MOST)
    filled = 0
    frame = b"".join((_LZ4_HEADER, struct.pack("<I", len(chunk)), chunk, bytes(4)))
    with pa.CompressedInputStream(pa.BufferReader(frame), "lz4") as stream:
        while filled < _LZ4_MOST and (count := stream.readinto(memoryview(memory)[filled:])):
            filled += count
    return bytes(memoryview(memory)[:filled])


def from_snappy(chunk: bytes, most_bytes: int = _MOST_CHUNK_BYTES) -> bytes:
    """Decompresses a chunk. Raises ValueError if it becomes more than ``most_bytes``, and OSError for a damaged one."""
    size = snappy_length(chunk)
    if size > most_bytes:
        raise ValueError(f"a chunk has more than {most_bytes} bytes once it is decompressed: {size}")
    plain: bytes = pa.decompress(chunk, size, codec="snappy", asbytes=True)
    return plain
