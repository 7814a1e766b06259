"""Compresses a record batch in the way that Kafka's clients read it."""

from __future__ import annotations

import struct

import pyarrow as pa

from penstock_kafka.client.native._encoder import RECORDS_AT

__all__ = ["ATTRIBUTES", "packed", "unpacked"]

#: The lowest bits of a batch's attributes.
ATTRIBUTES = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
#: Of LZ4's frame format: version 1, blocks that do not depend on each other (Kafka's Java client reads no others) of at
#: most 4 MB, no checksums; the last byte is that header's own.
_LZ4_HEADER = bytes.fromhex("04224d18607073")
_LZ4_BLOCK = 4 << 20
_LZ4_AS_IS = 0x8000_0000


def packed(data: bytearray, compression: str, level: int | None) -> tuple[bytearray, int]:
    """A batch with its records compressed, and its attributes. It has to be stamped with them."""
    if compression == "none":
        return data, 0
    records = memoryview(data)[RECORDS_AT:]
    small = _lz4(records) if compression == "lz4" else _codec(compression, level).compress(records, asbytes=True)
    return data[:RECORDS_AT] + small, ATTRIBUTES[compression]


def unpacked(data: bytearray, compression: str, plain_bytes: int) -> bytearray:
    """What :func:`packed` was given, of which ``plain_bytes`` is the length."""
    if compression == "none":
        return data
    size = plain_bytes - RECORDS_AT
    plain: bytes = pa.decompress(memoryview(data)[RECORDS_AT:], size, codec=compression, asbytes=True)
    return data[:RECORDS_AT] + plain


def _codec(compression: str, level: int | None) -> pa.Codec:
    # Levels mean something to gzip and zstd; librdkafka takes one for snappy, too, and does without it.
    return pa.Codec(compression, compression_level=level if compression in ("gzip", "zstd") else None)


def _lz4(records: memoryview) -> bytes:
    codec, parts = pa.Codec("lz4_raw"), [_LZ4_HEADER]
    for start in range(0, len(records), _LZ4_BLOCK):
        block = records[start : start + _LZ4_BLOCK]
        small = codec.compress(block, asbytes=True)
        if len(small) < len(block):
            parts += [struct.pack("<I", len(small)), small]
        else:
            parts += [struct.pack("<I", len(block) | _LZ4_AS_IS), bytes(block)]
    return b"".join([*parts, bytes(4)])
