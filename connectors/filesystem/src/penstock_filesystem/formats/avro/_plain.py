"""Avro files as fastavro reads them: with blocks that are not compressed, and within limits.

fastavro takes each length for true, and needs another library for each codec, also for Spark's default.

Layout of a file: ``Obj`` and the byte 1; metadata, a map of texts to bytes; 16 bytes of sync marker. Then blocks: the
number of records, the number of bytes, the bytes, the sync marker. Numbers are zigzag, seven bits a byte, lowest first.
See the Avro specification, "Object Container Files".
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from penstock.errors import BadDataError
from penstock_filesystem.formats._compression import from_snappy
from penstock_filesystem.formats._streams import PieceStream

__all__ = ["CODECS", "PlainStream"]

#: Of a block, decompressed. Writers make them of some kilobytes to a few megabytes.
MOST_BLOCK_BYTES = 1 << 28
_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_PIECE_BYTES = 1 << 20
_CODEC = b"avro.codec"


class PlainStream(PieceStream):
    """The bytes of a file with ``size`` bytes, as if it had no codec. Memory: one block, a few times.

    ``read`` raises ValueError for a file that is damaged, and BadDataError for a codec that is not known. It never
    raises EOFError, which fastavro takes for the end of the file.
    """

    def __init__(self, stream: Any, size: int, url: str) -> None:
        super().__init__(stream, self._plain())
        self._left = size
        self._url = url

    def _plain(self) -> Iterator[bytes]:
        if self._exactly(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin as an Avro file does")
        metadata = self._metadata()
        decompress = self._codec(metadata.pop(_CODEC, b"null").decode("ascii", "replace"))
        sync = self._exactly(_SYNC_BYTES)
        yield _MAGIC + _map(metadata) + sync
        while self._left:
            count = self._number()
            data = self._exactly(self._number())
            try:
                block = decompress(data)
            except (OSError, zlib.error, lzma.LZMAError) as error:  # of bytes that are in memory
                raise ValueError(f"a block can't be decompressed: {error}") from error
            if len(block) > MOST_BLOCK_BYTES:
                raise ValueError(f"a block has more than {MOST_BLOCK_BYTES} bytes once it is decompressed")
            if self._exactly(_SYNC_BYTES) != sync:
                raise ValueError("a block does not end with the file's sync marker")
            yield _number(count) + _number(len(block)) + block + sync

    def _codec(self, name: str) -> Callable[[bytes], bytes]:
        if name not in CODECS:
            raise BadDataError(f"{self._url}: its codec is {name!r}; known are {', '.join(CODECS)}")
        return CODECS[name]

    def _metadata(self) -> dict[bytes, bytes]:
        found = {}
        while count := self._number():
            if count < 0:  # then the size of this part of the map follows
                self._number()
            for _ in range(abs(count)):
                key = self._exactly(self._number())
                found[key] = self._exactly(self._number())
        return found

    def _exactly(self, size: int) -> bytes:
        if not 0 <= size <= self._left:
            raise ValueError(f"{size} bytes are wanted, and {self._left} are left")
        data: bytes = self._below.read(size)
        if len(data) < size:
            raise ValueError("it has become shorter")
        self._left -= size
        return data

    def _number(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self._exactly(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise ValueError("a number does not end")


def _number(value: int) -> bytes:
    """Encodes a number that is not negative, or is so as its writer wrote it."""
    bits = value << 1 ^ value >> 63
    found = bytearray()
    while bits >= 0x80:
        found.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*found, bits])


def _map(entries: dict[bytes, bytes]) -> bytes:
    """Encodes a map of bytes."""
    parts = [_number(len(part)) + part for entry in entries.items() for part in entry]
    return b"".join([_number(len(entries)), *parts, b"\0"]) if entries else b"\0"


def _from_deflate(data: bytes) -> bytes:
    return _at_most(zlib.decompressobj(-zlib.MAX_WBITS), data)


def _at_most(decompressor: Any, data: bytes) -> bytes:
    """Decompresses, and stops one byte behind the limit."""
    plain: bytes = decompressor.decompress(data, MOST_BLOCK_BYTES + 1)
    if len(plain) <= MOST_BLOCK_BYTES and not decompressor.eof:
        raise ValueError("a block ends inside of its compressed bytes")
    return plain


def _from_snappy(data: bytes) -> bytes:
    """The last four bytes are a checksum of the plain ones."""
    plain = from_snappy(data[:-4], MOST_BLOCK_BYTES)
    if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
        raise ValueError("a block is not what its checksum is of")
    return plain


def _from_zstd(data: bytes) -> bytes:
    memory, found = bytearray(_PIECE_BYTES), bytearray()
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while len(found) <= MOST_BLOCK_BYTES and (count := stream.readinto(memory)):
            found += memoryview(memory)[:count]
    return bytes(found)


#: Those of the specification.
CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _from_deflate,
    "snappy": _from_snappy,
    "bzip2": lambda data: _at_most(bz2.BZ2Decompressor(), data),
    "xz": lambda data: _at_most(lzma.LZMADecompressor(), data),
    "zstandard": _from_zstd,
}
