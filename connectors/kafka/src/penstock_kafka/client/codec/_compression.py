"""Compresses record batches in the way that Kafka's clients read them, and decompresses those of any client."""

from __future__ import annotations

import struct

import pyarrow as pa

from penstock_kafka.client.codec._encoder import RECORDS_AT

__all__ = ["BatchChunks", "compress", "decompress"]

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
    ended.
    """

    def __init__(self, batches: memoryview, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self._batches = batches
        self._chunk_bytes = chunk_bytes
        self._at = 0
        self._control = b""

    @property
    def is_done(self) -> bool:
        """Whether there is no further chunk."""
        return self._at >= len(self._batches)

    def next(self) -> bytearray:
        """Returns the next chunk. Raises ValueError for what can't be decompressed."""
        pieces: list[bytes | memoryview] = [self._control]
        size = 0
        while not self.is_done and size < self._chunk_bytes:
            (length,) = struct.unpack_from(">i", self._batches, self._at + 8)
            batch = self._batches[self._at : self._at + length + 12]
            (attributes,) = struct.unpack_from(">h", batch, 21)
            if attributes & 0x07:
                records = _decompressed(batch[RECORDS_AT:], attributes & 0x07)
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


def _decompressed(records: memoryview, codec: int) -> bytes:
    name = _CODECS.get(codec)
    if name is None:
        raise ValueError(f"records are compressed in a way that is not known ({codec})")
    try:
        if name == "snappy":
            return _from_snappy(bytes(records))
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(records)), name) as stream:
            return bytes(stream.read())
    except (OSError, struct.error, IndexError) as error:
        raise ValueError(f"records can't be decompressed ({name}): {error}") from error


def _from_snappy(records: bytes) -> bytes:
    if not records.startswith(_SNAPPY_MAGIC):
        return _from_snappy_block(records)
    parts, at = [], _SNAPPY_HEADER_BYTES
    while at < len(records):
        (size,) = struct.unpack_from(">i", records, at)
        parts.append(_from_snappy_block(records[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(parts)


def _from_snappy_block(block: bytes) -> bytes:
    """A block begins with its decompressed length, seven bits a byte, lowest first."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    plain: bytes = pa.decompress(block, size, codec="snappy", asbytes=True)
    return plain
