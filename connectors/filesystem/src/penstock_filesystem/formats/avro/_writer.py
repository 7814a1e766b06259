"""Writes Avro object container files, with a schema derived from Arrow's."""

from __future__ import annotations

import hashlib
from typing import ClassVar

import fastavro
import fastavro.write
import pyarrow as pa

from penstock.serialization.avro import AvroSchema, arrow_to_avro, holds_map, with_dicts
from penstock_filesystem.formats._writer_base import BinaryOutput, Encoder, FormatWriter

__all__ = ["AvroWriter"]


class AvroWriter(FormatWriter):
    """Writes Avro. Every file of a query has the same sync marker, so that files are joined block by block as bytes."""

    name = "avro"
    codecs: ClassVar[dict[str, str]] = {"deflate": "", "none": ""}
    default_codec = "deflate"

    @property
    def extension(self) -> str:
        """``.avro``: the codec is inside."""
        return ".avro"

    def validate(self) -> None:
        """Raises BadConfigurationError for names and types that Avro lacks."""
        _avro_schema(self.schema)

    def encoder(self, out: BinaryOutput, salt: str) -> Encoder:
        """Creates an encoder of records."""
        sync = hashlib.sha256(f"{salt}:{self.fingerprint}".encode()).digest()[:16]
        return _AvroEncoder(self.schema, out, "null" if self.codec == "none" else self.codec, sync)


class _AvroEncoder(Encoder):
    def __init__(self, schema: pa.Schema, out: BinaryOutput, codec: str, sync: bytes) -> None:
        self._out = out
        self._writer = fastavro.write.Writer(out, fastavro.parse_schema(_avro_schema(schema)), codec, sync_marker=sync)
        self.header_size = out.tell()
        self._integers = {
            index: pa.int32() if pa.types.is_date(field.type) else pa.int64()
            for index, field in enumerate(schema)
            if pa.types.is_date32(field.type) or pa.types.is_timestamp(field.type)
        }

    def write(self, batch: pa.RecordBatch) -> None:
        # Avro puts the fields of a row after each other: a loop over rows is in the format, and fastavro's is in C.
        # Dates and timestamps go in as the integers that Avro stores.
        for index, integer in self._integers.items():
            column = batch.column(index)
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
            batch = batch.set_column(index, batch.schema.names[index], column.cast(integer))
        maps = [field for field in batch.schema if holds_map(field.type)]
        for row in batch.to_pylist():
            for field in maps:
                row[field.name] = with_dicts(row[field.name], field.type)
            self._writer.write(row)

    @property
    def size(self) -> int:
        return self._out.tell()

    def finish(self) -> None:
        self._writer.flush()


def _avro_schema(schema: pa.Schema) -> AvroSchema:
    """Translates ``schema`` to an Avro record. Raises BadConfigurationError for names and types that Avro lacks."""
    # All columns may be null: the plan may change its mind about that, and the file's header must not change.
    return arrow_to_avro(pa.struct(list(schema)), "row", all_nullable=True)
