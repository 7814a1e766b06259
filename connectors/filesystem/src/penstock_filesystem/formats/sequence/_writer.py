"""Writes Hadoop's SequenceFile, version 6, uncompressed: pairs of a key and a value.

Layout: ``SEQ`` and the version byte; class names of key and value (as Hadoop's Text: variable-length length, UTF-8);
two booleans (compressed, block compressed); the metadata (a count, here 0); 16 bytes of sync marker. Then records:
length of key and value, length of the key (big-endian 32 bits each), key, value; before a record, about every 2000
bytes, an escape (-1) and the sync marker. See the API documentation of org.apache.hadoop.io.SequenceFile.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError
from penstock.serialization.values import is_text
from penstock_filesystem.formats._writer_base import BinaryOutput, Encoder, FormatWriter, FramedEncoder, unsupported

__all__ = ["SequenceWriter"]

SYNC_INTERVAL = 2000


def _variable_length(value: int) -> bytes:
    """Encodes Hadoop's variable-length integer, for values that are not negative."""
    if value <= 127:
        return struct.pack("b", value)
    digits = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return struct.pack("b", -112 - len(digits)) + digits


def _text(value: str) -> bytes:
    data = value.encode()
    return _variable_length(len(data)) + data


def _bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _writable(type_: pa.DataType) -> tuple[str, Callable[[Any], bytes]] | None:
    if is_text(type_):
        return "Text", _text
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return "BytesWritable", _bytes
    if type_ == pa.int32():
        return "IntWritable", struct.Struct(">i").pack
    if type_ == pa.int64():
        return "LongWritable", struct.Struct(">q").pack
    return None


class SequenceWriter(FormatWriter):
    """Writes the columns ``key`` and ``value``, each string (Text), binary, int or bigint, never null.

    Every file of a query has the same sync marker, so that files are joined as bytes.
    """

    name = "sequencefile"
    codecs: ClassVar[dict[str, str]] = {"none": ""}

    @property
    def extension(self) -> str:
        """``.seq``."""
        return ".seq"

    def validate(self) -> None:
        """Raises BadConfigurationError for other columns and types."""
        if sorted(self.schema.names) != ["key", "value"]:
            raise BadConfigurationError(
                "format sequencefile takes exactly two columns, named key and value; there are: "
                f"{', '.join(self.schema.names)}. Select … AS key, … AS value"
            )
        for field in self.schema:
            if _writable(field.type) is None:
                raise unsupported(self.name, field, "cast it to string, binary, int or bigint")

    def encoder(self, out: BinaryOutput, salt: str) -> Encoder:
        """Creates an encoder of pairs."""
        sync = hashlib.sha256(f"{salt}:{self.fingerprint}".encode()).digest()[:16]
        return _SequenceEncoder(self.schema, out, sync)


class _SequenceEncoder(FramedEncoder):
    def __init__(self, schema: pa.Schema, out: BinaryOutput, sync: bytes) -> None:
        pairs = [_writable(schema.field(name).type) for name in ("key", "value")]
        (key_class, self._key), (value_class, self._value) = (pair for pair in pairs if pair is not None)
        classes = b"".join(_text(f"org.apache.hadoop.io.{name}") for name in (key_class, value_class))
        super().__init__(out, b"SEQ\x06" + classes + b"\0\0" + struct.pack(">i", 0) + sync, "none")
        self._sync = struct.pack(">i", -1) + sync
        # A sync mark before the first record: in a joined file it may follow another chunk's last record.
        self._since_sync = SYNC_INTERVAL
        self.start()

    def render(self, batch: pa.RecordBatch) -> bytes:
        keys, values = batch.column("key"), batch.column("value")
        if keys.null_count or values.null_count:
            raise BadDataError("format sequencefile has no null: filter or replace null in the columns key and value")
        pieces: list[bytes] = []
        # A loop over rows: each record carries its own lengths.
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
            key_bytes, value_bytes = self._key(key), self._value(value)
            if self._since_sync >= SYNC_INTERVAL:
                pieces.append(self._sync)
                self._since_sync = 0
            lengths = struct.pack(">ii", len(key_bytes) + len(value_bytes), len(key_bytes))
            pieces += (lengths, key_bytes, value_bytes)
            self._since_sync += len(key_bytes) + len(value_bytes) + 8
        return b"".join(pieces)
