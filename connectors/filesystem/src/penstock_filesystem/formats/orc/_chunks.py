"""The compressed chunks of which a stream of an ORC file, and its metadata, consist."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from penstock_filesystem.formats._compression import from_lz4, from_snappy
from penstock_filesystem.formats.orc._specification import Codec

__all__ = ["compressed_bytes", "plain_bytes"]

_HEAD_BYTES = 3


def plain_bytes(data: bytes, codec: int, most_bytes: int) -> bytes:
    """Returns ``data`` without compression. A chunk of it has at most ``most_bytes`` then.

    ``codec`` is what the file's last bytes say. Raises ValueError or OSError for bytes that are damaged.
    """
    return data if codec == Codec.NONE else b"".join(_pieces(data, _decompressor(codec, most_bytes)))


def _pieces(data: bytes, decompress: Callable[[bytes], bytes]) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        head = int.from_bytes(data[at : at + _HEAD_BYTES], "little")
        at += _HEAD_BYTES
        chunk = data[at : at + (head >> 1)]
        if len(chunk) < head >> 1:
            raise ValueError("a compressed chunk is cut off")
        yield chunk if head & 1 else decompress(chunk)
        at += len(chunk)


def compressed_bytes(data: bytes, codec: Codec, block_bytes: int) -> bytes:
    """Returns ``data`` in chunks that have ``block_bytes`` without compression, or as it is where that is shorter."""
    if codec == Codec.NONE:
        return data
    compress = _compressor(codec)
    pieces: list[bytes] = []
    for start in range(0, len(data), block_bytes):
        plain = data[start : start + block_bytes]
        smaller = compress(plain)
        is_plain = len(smaller) >= len(plain)
        piece = plain if is_plain else smaller
        pieces += [(len(piece) << 1 | is_plain).to_bytes(_HEAD_BYTES, "little"), piece]
    return b"".join(pieces)


def _compressor(codec: Codec) -> Callable[[bytes], bytes]:
    if codec == Codec.ZLIB:
        return _deflated
    made = pa.Codec({Codec.SNAPPY: "snappy", Codec.LZ4: "lz4_raw", Codec.ZSTD: "zstd"}[codec])
    return lambda plain: bytes(made.compress(plain, asbytes=True))


def _deflated(plain: bytes) -> bytes:
    made = zlib.compressobj(wbits=-15)
    return made.compress(plain) + made.flush()


def _decompressor(codec: int, most_bytes: int) -> Callable[[bytes], bytes]:
    if codec == Codec.ZLIB:
        return lambda chunk: _inflated(chunk, most_bytes)
    if codec == Codec.SNAPPY:
        return lambda chunk: from_snappy(chunk, most_bytes)
    if codec == Codec.LZ4:
        return from_lz4
    if codec == Codec.ZSTD:
        return lambda chunk: _from_zstd(chunk, most_bytes)
    raise ValueError("it is compressed with LZO" if codec == Codec.LZO else f"it is compressed with codec {codec}")


def _inflated(chunk: bytes, most_bytes: int) -> bytes:
    try:
        return zlib.decompressobj(-15).decompress(chunk, most_bytes)
    except zlib.error as error:
        raise ValueError(f"a compressed chunk is damaged: {error}") from error


def _from_zstd(chunk: bytes, most_bytes: int) -> bytes:
    memory = bytearray(most_bytes)
    filled = 0
    with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
        stream_: Any = stream
        while filled < most_bytes and (count := stream_.readinto(memoryview(memory)[filled:])):
            filled += count
    return bytes(memoryview(memory)[:filled])
