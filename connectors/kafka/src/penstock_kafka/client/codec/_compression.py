"""Compresses record batches in the way that Kafka's clients read them, and decompresses those of any client."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

from penstock.serialization import snappy_length
from penstock_kafka.client.codec._encoder import RECORDS_AT

__all__ = ["MOST_BATCH_BYTES", "BatchChunks", "compress", "decompress", "decompressed"]

#: The lowest bits of a batch's attributes.
_ATTRIBUTES = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
#: Of LZ4's frame format: version 1, blocks that do not depend on each other (Kafka's Java client reads no others) of at
#: most 4 MB, no checksums; the last byte is that header's own.
_LZ4_HEADER = bytes.fromhex("04224d18607073")
_LZ4_BLOCK = 4 << 20
_LZ4_AS_IS = 0x8000_0000
_CONTROL = 0x20
_CODECS = {number: name for name, number in _ATTRIBUTES.items() if number}
#: What Java's client puts before blocks of snappy (xerial's framing); librdkafka writes one block without it.
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER_BYTES = 16
#: Decompressed at a time: a few megabytes may become thousands of them.
_CHUNK_BYTES = 8 << 20
_PIECE_BYTES = 1 << 16
#: Of a batch, decompressed: what librdkafka takes.
MOST_BATCH_BYTES = 100_000_000


def compress(data: bytearray, compression: str, level: int | None) -> tuple[bytearray, int]:
    """Returns the batch with its records compressed, and its attributes. It must be stamped with them."""
    if compression == "none":
        return data, 0
    records = memoryview(data)[RECORDS_AT:]
    small = _lz4(records) if compression == "lz4" else _codec(compression, level).compress(records, asbytes=True)
    return data[:RECORDS_AT] + small, _ATTRIBUTES[compression]


def decompress(data: bytearray, compression: str, plain_bytes: int) -> bytearray:
    """Returns what :func:`compress` was given, which was ``plain_bytes`` long."""
    if compression == "none":
        return data
    size = plain_bytes - RECORDS_AT
    plain: bytes = pa.decompress(memoryview(data)[RECORDS_AT:], size, codec=compression, asbytes=True)
    return data[:RECORDS_AT] + plain


def _codec(compression: str, level: int | None) -> pa.Codec:
    # Levels mean something to gzip and zstd; librdkafka accepts one for snappy, too, and ignores it.
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


class BatchChunks:
    """Decompresses whole batches chunk by chunk, each of about 8 MiB or one batch.

    A chunk begins with the control batches of all chunks before it: the decoder needs to know which transactions they
    ended. A batch of more than ``most_bytes`` is refused: a few kilobytes may claim to be gigabytes.
    """

    def __init__(
        self, batches: memoryview, chunk_bytes: int = _CHUNK_BYTES, *, most_bytes: int = MOST_BATCH_BYTES
    ) -> None:
        self._batches = batches
        self._most_bytes = most_bytes
        self._chunk_bytes = chunk_bytes
        self._at = 0
        self._control = b""

    @property
    def is_done(self) -> bool:
        """Whether there is no further chunk."""
        return self._at >= len(self._batches)

    def next(self) -> bytearray:
        """Returns the next chunk. Raises ValueError for what can't be decompressed."""
        pieces: list[bytes | bytearray | memoryview] = [self._control]
        size = 0
        while not self.is_done and size < self._chunk_bytes:
            (length,) = struct.unpack_from(">i", self._batches, self._at + 8)
            batch = self._batches[self._at : self._at + length + 12]
            (attributes,) = struct.unpack_from(">h", batch, 21)
            if attributes & 0x07:
                records = decompressed(batch[RECORDS_AT:], attributes & 0x07, self._most_bytes)
                header = bytearray(batch[:RECORDS_AT])
                struct.pack_into(">i", header, 8, len(records) + RECORDS_AT - 12)
                struct.pack_into(">h", header, 21, attributes & ~0x07)
                pieces += [bytes(header), records]
                size += len(records)
            else:
                pieces.append(batch)
                size += len(batch)
            if attributes & _CONTROL:
                self._control += bytes(batch)
            self._at += len(batch)
        return bytearray().join(pieces)


def decompressed(records: memoryview, codec: int, most_bytes: int) -> bytes | bytearray:
    """Returns what another client has compressed, by the number of the codec. Raises ValueError for what it is not."""
    name = _CODECS.get(codec)
    if name is None:
        raise ValueError(f"records are compressed in a way that is not known ({codec})")
    try:
        if name == "snappy":
            return _from_snappy(bytes(records), most_bytes)
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(records)), name) as stream:
            return _all_of(stream, most_bytes)
    except (OSError, struct.error) as error:
        raise ValueError(f"records can't be decompressed ({name}): {error}") from error


def _all_of(stream: Any, most_bytes: int) -> bytearray:
    """Reads into memory of our own: what pyarrow's ``read`` allocates is never freed if the bytes are broken."""
    found, filled = bytearray(_PIECE_BYTES), 0
    while count := stream.readinto(memoryview(found)[filled:]):
        filled += count
        if filled > most_bytes:
            raise _too_large(most_bytes)
        if filled == len(found):
            found += bytes(filled)
    del found[filled:]
    return found


def _too_large(most_bytes: int) -> ValueError:
    return ValueError(
        f"a batch has more than {most_bytes} bytes once it is decompressed: set kafka.receive.message.max.bytes to more"
    )


def _from_snappy(records: bytes, most_bytes: int) -> bytes:
    if not records.startswith(_SNAPPY_MAGIC):
        return _from_snappy_block(records, most_bytes)
    parts, at, left = [], _SNAPPY_HEADER_BYTES, most_bytes
    while at < len(records):
        (size,) = struct.unpack_from(">i", records, at)
        if not 0 <= size <= len(records) - at - 4:
            raise ValueError(f"a block of snappy can't have {size} bytes")
        parts.append(_from_snappy_block(records[at + 4 : at + 4 + size], left))
        left -= len(parts[-1])
        at += 4 + size
    return b"".join(parts)


def _from_snappy_block(block: bytes, most_bytes: int) -> bytes:
    size = snappy_length(block)
    if size > most_bytes:
        raise _too_large(most_bytes)
    plain: bytes = pa.decompress(block, size, codec="snappy", asbytes=True)
    return plain
