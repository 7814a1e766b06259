"""Writes Parquet files: row groups of a good size, and merging by writing rows again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from penstock_filesystem.formats._options import WriteOptions
from penstock_filesystem.formats._writer_base import BinaryOutput, Encoder, FormatWriter, estimated_size, unsupported

__all__ = ["ParquetWriter", "merge_parquet"]

#: Arrow memory of the rows that are gathered for one row group.
ROW_GROUP_BYTES = 64 << 20
DEFAULT_ROW_GROUP_ROWS = 1 << 20
DEFAULT_CODEC = "zstd"


class ParquetWriter(FormatWriter):
    """Writes Parquet, readable by Spark, DuckDB and pyarrow."""

    name = "parquet"
    codecs: ClassVar[dict[str, str]] = dict.fromkeys(("zstd", "snappy", "gzip", "lz4", "none"), "")
    default_codec = DEFAULT_CODEC

    def __init__(self, schema: pa.Schema, options: WriteOptions) -> None:
        super().__init__(schema, options)
        self._rows = options.row_group_rows

    @property
    def extension(self) -> str:
        """``.parquet``: the codec is inside."""
        return ".parquet"

    def validate(self) -> None:
        """Raises BadConfigurationError for columns without a type or without fields."""
        for field in self.schema:
            if pa.types.is_null(field.type):
                raise unsupported(self.name, field, "it has no type; cast it to the one it should have")
            if pa.types.is_struct(field.type) and field.type.num_fields == 0:
                raise unsupported(self.name, field, "a struct needs at least one field")

    def encoder(self, out: BinaryOutput, salt: str) -> Encoder:
        """Creates an encoder of row groups."""
        return self.encoder_of(self.schema, out)

    def encoder_of(self, schema: pa.Schema, out: BinaryOutput) -> ParquetEncoder:
        """Creates an encoder for another schema: that of chunks written before the query's schema changed."""
        return ParquetEncoder(schema, out, self.codec, self._rows)


class ParquetEncoder(Encoder):
    """Gathers rows to row groups of :data:`ROW_GROUP_BYTES` or the given number of rows, whichever is less."""

    def __init__(self, schema: pa.Schema, out: BinaryOutput, codec: str, row_group_rows: int) -> None:
        self._out = out
        self._writer = pq.ParquetWriter(
            out, schema, compression=codec, coerce_timestamps="us", allow_truncated_timestamps=True
        )
        self._schema = schema
        self._row_group_rows = row_group_rows
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._encoded_bytes = 0  # of Arrow memory that is in the file

    def write(self, batch: pa.RecordBatch) -> None:
        """Gathers rows, and writes a row group once there are enough."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= self._row_group_rows or self._bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes a row group (or several, if there are more rows than one may have)."""
        if self._batches:
            table = pa.Table.from_batches(self._batches, self._schema)
            self._writer.write_table(table, row_group_size=self._row_group_rows)
            self._encoded_bytes += self._bytes
            self._batches, self._rows, self._bytes = [], 0, 0

    @property
    def size(self) -> int:
        """Size of the file plus what is gathered, as if it shrank as the rows before it did."""
        return estimated_size(self._out.tell(), self._encoded_bytes, self._bytes)

    @property
    def size_is_guess(self) -> bool:
        """Whether no row group is written yet."""
        return not self._encoded_bytes and self._rows > 0

    @property
    def buffered_bytes(self) -> int:
        """Arrow memory of the rows that are gathered."""
        return self._bytes

    def finish(self) -> None:
        """Writes the last row group and the footer."""
        self.flush()
        self._writer.close()


def merge_parquet(writer: FormatWriter, sources: Iterable[Any], out: BinaryOutput) -> None:
    """Writes the rows of ``sources`` (open Parquet files of one schema) as one file. Memory: one row group.

    ``writer`` gives codec and row group size, unless the query now writes another format.
    """
    encoder: ParquetEncoder | None = None
    for source in sources:
        with pq.ParquetFile(source) as file:
            schema = file.schema_arrow
            if encoder is None and isinstance(writer, ParquetWriter):
                encoder = writer.encoder_of(schema, out)
            elif encoder is None:
                encoder = ParquetEncoder(schema, out, DEFAULT_CODEC, DEFAULT_ROW_GROUP_ROWS)
            for batch in file.iter_batches(batch_size=65_536):
                encoder.write(batch)
    if encoder is not None:
        encoder.finish()
