"""Parquet: row groups of a good size, and merging by writing rows again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.options import OptionValues
from penstock_filesystem.sink._format import BinaryOutput, Encoder, Format, unsupported

__all__ = ["ParquetFormat", "merge_parquet"]

#: Arrow memory of the rows that are gathered for one row group.
ROW_GROUP_BYTES = 64 << 20
DEFAULT_ROW_GROUP_ROWS = 1 << 20
DEFAULT_CODEC = "zstd"


class ParquetFormat(Format):
    """Parquet, readable by Spark, DuckDB and pyarrow."""

    name = "parquet"
    codecs: ClassVar[dict[str, str]] = dict.fromkeys(("zstd", "snappy", "gzip", "lz4", "none"), "")
    default_codec = DEFAULT_CODEC

    def __init__(self, schema: pa.Schema, options: OptionValues) -> None:
        super().__init__(schema, options)
        self._rows = int(options["rowGroupSize"])

    @property
    def extension(self) -> str:
        """See the base class."""
        return ".parquet"

    def validate(self) -> None:
        """See the base class."""
        for field in self.schema:
            if pa.types.is_null(field.type):
                raise unsupported(self.name, field, "it has no type; cast it to the one it should have")
            if pa.types.is_struct(field.type) and field.type.num_fields == 0:
                raise unsupported(self.name, field, "a struct needs at least one field")

    def encoder(self, out: BinaryOutput, salt: str) -> Encoder:
        """See the base class."""
        return self.encoder_of(self.schema, out)

    def encoder_of(self, schema: pa.Schema, out: BinaryOutput) -> ParquetEncoder:
        """An encoder for files of another schema: that of chunks written before the query's schema changed."""
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
        """See the base class."""
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
        """The file plus what is gathered, as if it shrank as the rows before it did."""
        written = self._out.tell()
        ratio = min(1.0, written / self._encoded_bytes) if self._encoded_bytes else 1.0
        return written + int(self._bytes * ratio)

    @property
    def size_is_guess(self) -> bool:
        """See the base class."""
        return not self._encoded_bytes and self._rows > 0

    @property
    def buffered_bytes(self) -> int:
        """See the base class."""
        return self._bytes

    def finish(self) -> None:
        """See the base class."""
        self.flush()
        self._writer.close()


def merge_parquet(encode: ParquetFormat | None, sources: Iterable[Any], out: BinaryOutput) -> None:
    """Writes the rows of ``sources`` (open Parquet files of one schema) as one file. Memory: one row group.

    ``encode`` gives codec and row group size; ``None`` if the query now writes another format.
    """
    encoder: ParquetEncoder | None = None
    for source in sources:
        with pq.ParquetFile(source) as file:
            schema = file.schema_arrow
            if encoder is None and encode is None:
                encoder = ParquetEncoder(schema, out, DEFAULT_CODEC, DEFAULT_ROW_GROUP_ROWS)
            elif encoder is None and encode is not None:
                encoder = encode.encoder_of(schema, out)
            for batch in file.iter_batches(batch_size=65_536):
                encoder.write(batch)  # type: ignore[union-attr]
    if encoder is not None:
        encoder.finish()
