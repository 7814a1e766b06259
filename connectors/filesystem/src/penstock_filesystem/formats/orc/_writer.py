"""Writes ORC files: stripes of a good size, and merging by writing rows again.

Source: ORC Specification v1, "File Tail" and "Stripes".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import pyarrow as pa

from penstock.errors import BadDataError
from penstock.serialization.values import TimeParser
from penstock_filesystem.formats._writer_base import BinaryOutput, Encoder, FormatWriter, estimated_size, unsupported
from penstock_filesystem.formats.orc._chunks import compressed_bytes
from penstock_filesystem.formats.orc._columns import ColumnReader, arrow_type, numbers_of
from penstock_filesystem.formats.orc._layout import read_streams, read_tail
from penstock_filesystem.formats.orc._protobuf import encoded, packed
from penstock_filesystem.formats.orc._specification import (
    MAGIC,
    PROLEPTIC_GREGORIAN,
    Codec,
    EncodingFields,
    Footer,
    Postscript,
    Statistics,
    StreamFields,
    StripeFields,
    StripeFooter,
)
from penstock_filesystem.formats.orc._stripes import StripeColumns, kind_of, types_of
from penstock_filesystem.formats.orc._times import Times

__all__ = ["OrcWriter", "merge_orc"]

#: Arrow memory of the rows that are gathered for one stripe.
_STRIPE_BYTES = 64 << 20
_BLOCK_BYTES = 256 << 10
_CODECS = {"zstd": Codec.ZSTD, "snappy": Codec.SNAPPY, "zlib": Codec.ZLIB, "lz4": Codec.LZ4, "none": Codec.NONE}
_DEFAULT_CODEC = "zstd"
#: Hive 0.12, whose runs of numbers are of version 2.
_VERSION = (0, 12)


class OrcWriter(FormatWriter):
    """Writes ORC, readable by Spark, Hive and pyarrow.

    Timestamps are points in time, and those without a zone whole numbers with Spark's note; days are Gregorian.
    """

    name = "orc"
    codecs: ClassVar[dict[str, str]] = dict.fromkeys(_CODECS, "")
    default_codec = _DEFAULT_CODEC

    @property
    def extension(self) -> str:
        """``.orc``: the codec is inside."""
        return ".orc"

    def validate(self) -> None:
        """Raises BadConfigurationError for columns of a type that ORC lacks."""
        for field in self.schema:
            if not _can_hold(field.type):
                raise unsupported(self.name, field, "cast it, or use json or parquet")

    def encoder(self, out: BinaryOutput, salt: str) -> Encoder:
        """Creates an encoder of stripes."""
        return _OrcEncoder(self.schema, out, _CODECS[self.codec])


class _OrcEncoder(Encoder):
    """Gathers rows to stripes of :data:`_STRIPE_BYTES`."""

    def __init__(self, schema: pa.Schema, out: BinaryOutput, codec: Codec) -> None:
        self._schema = schema
        self._out = out
        self._codec = codec
        self._start = out.tell()
        self._types = types_of(schema)
        self._stripes: list[bytes] = []
        self._values = [0] * len(self._types)
        self._has_null = [False] * len(self._types)
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._encoded_bytes = 0  # of Arrow memory that is in the file
        out.write(MAGIC)

    def write(self, batch: pa.RecordBatch) -> None:
        """Gathers rows, and writes a stripe once there are enough."""
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= _STRIPE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes a stripe. Raises BadDataError for a value that ORC can't hold."""
        if not self._batches:
            return
        rows = pa.Table.from_batches(self._batches, self._schema).combine_chunks().to_struct_array()
        for chunk in rows.chunks:
            self._stripe(chunk)
        self._encoded_bytes += self._bytes
        self._batches, self._bytes = [], 0

    def _stripe(self, rows: pa.StructArray) -> None:
        columns = StripeColumns()
        try:
            columns.add(rows, "")
        except ValueError as error:
            raise BadDataError(f"{error}: write it as parquet, or leave such rows out") from error
        offset = self._written()
        streams = []
        for kind, number, data in columns.streams:
            stored = compressed_bytes(data, self._codec, _BLOCK_BYTES)
            self._out.write(stored)
            stream = (StreamFields.KIND, kind), (StreamFields.COLUMN, number), (StreamFields.LENGTH, len(stored))
            streams.append((StripeFooter.STREAMS, encoded(*stream)))
        end = self._written()
        encodings = [(StripeFooter.ENCODINGS, encoded((EncodingFields.KIND, one))) for one in columns.encodings]
        self._put(encoded(*streams, *encodings, (StripeFooter.ZONE, b"UTC")))
        lengths = offset, 0, end - offset, self._written() - end, len(rows)
        self._stripes.append(encoded(*zip(StripeFields, lengths, strict=True)))
        self._rows += len(rows)
        self._values = [sum(pair) for pair in zip(self._values, columns.values, strict=True)]
        self._has_null = [any(pair) for pair in zip(self._has_null, columns.has_null, strict=True)]

    def _put(self, message: bytes) -> int:
        """Writes a message, and returns how many bytes it has in the file."""
        stored = compressed_bytes(message, self._codec, _BLOCK_BYTES)
        self._out.write(stored)
        return len(stored)

    def _written(self) -> int:
        return self._out.tell() - self._start

    @property
    def size(self) -> int:
        """Size of the file plus what is gathered, as if it shrank as the rows before it did."""
        return estimated_size(self._written(), self._encoded_bytes, self._bytes)

    @property
    def size_is_guess(self) -> bool:
        """Whether no stripe is written yet."""
        return not self._encoded_bytes and self._bytes > 0

    @property
    def buffered_bytes(self) -> int:
        """Arrow memory of the rows that are gathered."""
        return self._bytes

    def finish(self) -> None:
        """Writes the last stripe and the tail."""
        self.flush()
        counts = zip(self._values, self._has_null, strict=True)
        footer = self._put(
            encoded(
                (Footer.HEADER_LENGTH, len(MAGIC)),
                (Footer.CONTENT_LENGTH, self._written()),
                *((Footer.STRIPES, stripe) for stripe in self._stripes),
                *((Footer.TYPES, type_) for type_ in self._types),
                (Footer.ROWS, self._rows),
                *(
                    (Footer.STATISTICS, encoded((Statistics.VALUES, values), (Statistics.HAS_NULL, int(has_null))))
                    for values, has_null in counts
                ),
                (Footer.ROW_INDEX_STRIDE, 0),
                (Footer.CALENDAR, PROLEPTIC_GREGORIAN),
            )
        )
        postscript = encoded(
            (Postscript.FOOTER_LENGTH, footer),
            (Postscript.COMPRESSION, self._codec),
            (Postscript.BLOCK_SIZE, _BLOCK_BYTES),
            (Postscript.VERSION, packed(_VERSION)),
            (Postscript.METADATA_LENGTH, 0),
            (Postscript.WRITER_VERSION, 6),
            (Postscript.MAGIC, MAGIC),
        )
        self._out.write(postscript + bytes([len(postscript)]))


def merge_orc(writer: FormatWriter, sources: Iterable[Any], out: BinaryOutput) -> None:
    """Writes the rows of ``sources`` (open ORC files of one schema that a sink has written) as one file.

    ``writer`` gives the codec, unless the query now writes another format. Memory: one stripe.
    """
    codec = writer.codec if isinstance(writer, OrcWriter) else _DEFAULT_CODEC
    encoder: _OrcEncoder | None = None
    for source in sources:
        file = source if isinstance(source, pa.NativeFile) else pa.PythonFile(source, mode="r")
        tail = read_tail(file)
        names, columns = list(tail.root.names), tail.root.children
        schema = pa.schema([(name, arrow_type(column)) for name, column in zip(names, columns, strict=True)])
        if encoder is None:
            encoder = _OrcEncoder(schema, out, _CODECS[codec])
        for stripe in tail.stripes:
            streams = read_streams(file, tail, stripe, set(numbers_of(tail.root)))
            reader = ColumnReader(streams, Times(streams.zone, TimeParser("UTC"), is_proleptic=True))
            arrays = [reader.read(column, stripe.rows) for column in columns]
            encoder.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
    if encoder is not None:
        encoder.finish()


def _can_hold(type_: pa.DataType) -> bool:
    if kind_of(type_) is None:
        return False
    if pa.types.is_map(type_):
        return _can_hold(type_.key_type) and _can_hold(type_.item_type)
    return all(_can_hold(type_.field(number).type) for number in range(type_.num_fields))
