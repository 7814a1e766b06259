"""Writes Hadoop's SequenceFile: see ``_layout``. With a codec, in blocks, as they compress best."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError
from penstock.serialization.values import is_text
from penstock_filesystem.formats._writer_base import BinaryOutput, Encoder, FormatWriter, FramedEncoder, unsupported
from penstock_filesystem.formats.sequence._layout import CODECS, ESCAPE, MAGIC, Codec, text, variable_length

__all__ = ["SequenceWriter"]

SYNC_INTERVAL = 2000
#: As Hadoop's io.seqfile.compress.blocksize.
_BLOCK_BYTES = 1_000_000


def _bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _writable(type_: pa.DataType) -> tuple[str, Callable[[Any], bytes]] | None:
    if is_text(type_):
        return "Text", text
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
    codecs: ClassVar[dict[str, str]] = {"none": "", **dict.fromkeys(CODECS, "")}

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
        if self.codec == "none":
            return _RecordEncoder(self.schema, out, sync, None)
        return _BlockEncoder(self.schema, out, sync, CODECS[self.codec])


class _PairEncoder(FramedEncoder):
    def __init__(self, schema: pa.Schema, out: BinaryOutput, sync: bytes, codec: Codec | None) -> None:
        pairs = [_writable(schema.field(name).type) for name in ("key", "value")]
        (key_class, self._key), (value_class, self._value) = (pair for pair in pairs if pair is not None)
        classes = b"".join(text(f"org.apache.hadoop.io.{name}") for name in (key_class, value_class))
        how = b"\0\0" if codec is None else b"\1\1" + text(codec.whole_name)
        super().__init__(out, MAGIC + classes + how + struct.pack(">i", 0) + sync, "none")
        self._sync = ESCAPE + sync
        self.start()

    def _pairs(self, batch: pa.RecordBatch) -> Iterator[tuple[bytes, bytes]]:
        keys, values = batch.column("key"), batch.column("value")
        if keys.null_count or values.null_count:
            raise BadDataError("format sequencefile has no null: filter or replace null in the columns key and value")
        # A loop over rows: each record carries its own lengths.
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
            yield self._key(key), self._value(value)


class _RecordEncoder(_PairEncoder):
    # A sync mark before the first record: in a joined file it may follow another chunk's last record.
    _since_sync = SYNC_INTERVAL

    def render(self, batch: pa.RecordBatch) -> bytes:
        pieces: list[bytes] = []
        for key, value in self._pairs(batch):
            if self._since_sync >= SYNC_INTERVAL:
                pieces.append(self._sync)
                self._since_sync = 0
            pieces += (struct.pack(">ii", len(key) + len(value), len(key)), key, value)
            self._since_sync += len(key) + len(value) + 8
        return b"".join(pieces)


class _BlockEncoder(_PairEncoder):
    """Holds back the pairs of a block, of about a megabyte."""

    def __init__(self, schema: pa.Schema, out: BinaryOutput, sync: bytes, codec: Codec) -> None:
        self._compress = codec.compress
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._held = 0
        super().__init__(schema, out, sync, codec)

    def render(self, batch: pa.RecordBatch) -> bytes:
        pieces: list[bytes] = []
        for key, value in self._pairs(batch):
            self._keys.append(key)
            self._values.append(value)
            self._held += len(key) + len(value)
            if self._held >= _BLOCK_BYTES:
                pieces.append(self._take_block())
        return b"".join(pieces)

    def _take_block(self) -> bytes:
        pieces = [self._sync, variable_length(len(self._keys))]
        for every in (self._keys, self._values):
            for plain in (b"".join(variable_length(len(one)) for one in every), b"".join(every)):
                packed = self._compress(plain)
                pieces += (variable_length(len(packed)), packed)
        self._keys, self._values, self._held = [], [], 0
        return b"".join(pieces)

    def flush(self) -> None:
        """Writes the block that was begun."""
        if self._keys:
            self._out.write(self._take_block())

    @property
    def size(self) -> int:
        """Size so far, with what is held back as it is."""
        return self._out.tell() + self._held

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the block that was begun."""
        return self._held
