"""What reading and writing Hadoop's SequenceFile, version 6, have in common.

Layout: ``SEQ`` and the version byte; class names of key and value (as Hadoop's Text: variable-length length, UTF-8);
two booleans (compressed, block compressed); if compressed, the class name of the codec; the metadata (a count, and
pairs of texts); 16 bytes of sync marker. Then one of:

- records: length of key and value, length of the key (big-endian 32 bits each), key, value, which is compressed where
  the file is; before a record, about every 2000 bytes, an escape (-1) and the sync marker;
- blocks: the escape and the sync marker; the number of records; then lengths of keys, keys, lengths of values, and
  values, each compressed and with its length before it. Lengths are variable-length.

See the API documentation of org.apache.hadoop.io.SequenceFile and WritableUtils.
"""

from __future__ import annotations

import bz2
import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any, NamedTuple

import pyarrow as pa

from penstock_filesystem.formats._compression import from_lz4, from_snappy, hadoop_blocks

__all__ = ["CODECS", "CODEC_CLASSES", "ESCAPE", "MAGIC", "MOST_BYTES", "SYNC_BYTES", "Codec", "text", "variable_length"]

MAGIC = b"SEQ\x06"
ESCAPE = struct.pack(">i", -1)
SYNC_BYTES = 16
#: Of what is decompressed at once: a value, or the values of a block, which are a megabyte unless a row is larger.
MOST_BYTES = 1 << 28
#: Hadoop's codecs take pieces of up to 256 KiB, less what a codec may add.
_PIECE_BYTES = 128 << 10


def variable_length(value: int) -> bytes:
    """Encodes Hadoop's variable-length integer, for values that are not negative."""
    if value <= 127:
        return struct.pack("b", value)
    digits = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return struct.pack("b", -112 - len(digits)) + digits


def text(value: str) -> bytes:
    """Encodes Hadoop's Text."""
    data = value.encode()
    return variable_length(len(data)) + data


class Codec(NamedTuple):
    """A codec: its class in ``org.apache.hadoop.io.compress``, and both ways.

    ``decompress`` raises ValueError, OSError, EOFError or ``zlib.error`` for bytes that are damaged, or become more
    than :data:`MOST_BYTES`.
    """

    class_name: str
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]

    @property
    def whole_name(self) -> str:
        """The class with its package."""
        return f"org.apache.hadoop.io.compress.{self.class_name}"


def _unpacked(unpacker: Any, data: bytes) -> bytes:
    """Returns what a decompressor of Python's makes of ``data``."""
    plain: bytes = unpacker.decompress(data, MOST_BYTES + 1)
    _check_size(len(plain))
    if not unpacker.eof:
        raise EOFError("a compressed value has no end")
    return plain


def _inflated(data: bytes) -> bytes:
    """Unpacks zlib and gzip."""
    return _unpacked(zlib.decompressobj(32 + zlib.MAX_WBITS), data)


def _from_bzip2(data: bytes) -> bytes:
    return _unpacked(bz2.BZ2Decompressor(), data)


def _from_zstd(data: bytes) -> bytes:
    plain = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        piece = bytearray(1 << 20)
        while count := stream.readinto(piece):
            plain += memoryview(piece)[:count]
            _check_size(len(plain))
    return bytes(plain)


def _from_blocks(decompress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def joined(data: bytes) -> bytes:
        plain = bytearray()
        for piece in hadoop_blocks(BytesIO(data).read, decompress):
            plain += piece
            _check_size(len(plain))
        return bytes(plain)

    return joined


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise ValueError(f"a compressed value becomes more than {MOST_BYTES} bytes")


def _to_blocks(codec: str) -> Callable[[bytes], bytes]:
    def framed(data: bytes) -> bytes:
        made = []
        for start in range(0, len(data), _PIECE_BYTES):
            piece = data[start : start + _PIECE_BYTES]
            packed = pa.compress(piece, codec, asbytes=True)
            made.append(struct.pack(">ii", len(piece), len(packed)) + packed)
        return b"".join(made)

    return framed


def _refuse(data: bytes) -> bytes:
    raise NotImplementedError


#: By the values of the option ``compression``.
CODECS = {
    "deflate": Codec("DefaultCodec", zlib.compress, _inflated),
    "bzip2": Codec("BZip2Codec", bz2.compress, _from_bzip2),
    "snappy": Codec("SnappyCodec", _to_blocks("snappy"), _from_blocks(from_snappy)),
    "lz4": Codec("Lz4Codec", _to_blocks("lz4_raw"), _from_blocks(from_lz4)),
}
#: Those that files are read with, by the whole name of the class.
CODEC_CLASSES = {
    one.whole_name: one
    for one in (
        *CODECS.values(),
        Codec("DeflateCodec", _refuse, _inflated),
        Codec("GzipCodec", _refuse, _inflated),
        Codec("ZStandardCodec", _refuse, _from_zstd),
    )
}
