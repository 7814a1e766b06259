"""Makes plain batches of compressed ones, whichever client wrote them."""

from __future__ import annotations

import struct

import pyarrow as pa

from penstock_kafka.client.direct._packing import ATTRIBUTES
from penstock_kafka.client.native._encoder import RECORDS_AT

__all__ = ["Parts"]

_CONTROL = 0x20
_CODECS = {number: name for name, number in ATTRIBUTES.items() if number}
#: What Java's client puts before blocks of snappy (xerial's framing); librdkafka writes one block without it.
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER_BYTES = 16
#: Of unpacked batches at a time: a few megabytes may be thousands of them when unpacked.
_PART_BYTES = 8 << 20


class Parts:
    """Whole batches, some of them compressed, as plain ones: a part after the other, each of about 8 MiB or one batch.

    A part begins with the marks (control batches) of all that were before: what they end is not in it any more.
    """

    def __init__(self, batches: memoryview, part_bytes: int = _PART_BYTES) -> None:
        self._batches = batches
        self._part_bytes = part_bytes
        self._at = 0
        self._marks = b""

    @property
    def is_done(self) -> bool:
        """Whether there is no further part."""
        return self._at >= len(self._batches)

    def next(self) -> bytearray:
        """The next part. Raises ValueError for what can't be unpacked."""
        pieces: list[bytes | memoryview] = [self._marks]
        size = 0
        while not self.is_done and size < self._part_bytes:
            (length,) = struct.unpack_from(">i", self._batches, self._at + 8)
            batch = self._batches[self._at : self._at + length + 12]
            (attributes,) = struct.unpack_from(">h", batch, 21)
            if attributes & 0x07:
                records = _unpacked(batch[RECORDS_AT:], attributes & 0x07)
                header = bytearray(batch[:RECORDS_AT])
                struct.pack_into(">i", header, 8, len(records) + RECORDS_AT - 12)
                struct.pack_into(">h", header, 21, attributes & ~0x07)
                pieces += [bytes(header), records]
                size += len(records)
            else:
                pieces.append(batch)
                size += len(batch)
            if attributes & _CONTROL:
                self._marks += bytes(batch)
            self._at += len(batch)
        return bytearray().join(pieces)


def _unpacked(records: memoryview, codec: int) -> bytes:
    name = _CODECS.get(codec)
    if name is None:
        raise ValueError(f"records are compressed in a way that is not known ({codec})")
    try:
        if name == "snappy":
            return _of_snappy(bytes(records))
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(records)), name) as stream:
            return bytes(stream.read())
    except (OSError, struct.error, IndexError) as error:
        raise ValueError(f"records can't be unpacked ({name}): {error}") from error


def _of_snappy(records: bytes) -> bytes:
    if not records.startswith(_SNAPPY_MAGIC):
        return _block_of_snappy(records)
    parts, at = [], _SNAPPY_HEADER_BYTES
    while at < len(records):
        (size,) = struct.unpack_from(">i", records, at)
        parts.append(_block_of_snappy(records[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(parts)


def _block_of_snappy(block: bytes) -> bytes:
    """A block begins with how long it is when unpacked, seven bits a byte, lowest first."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    unpacked: bytes = pa.decompress(block, size, codec="snappy", asbytes=True)
    return unpacked
