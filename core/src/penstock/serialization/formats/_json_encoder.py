"""A struct column to JSON records."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization.formats._contracts import RecordEncoder
from penstock.serialization.formats._rows import first_bad_row
from penstock.serialization.values import JsonWriter, ValueText

__all__ = ["JsonEncoder"]


class JsonEncoder(RecordEncoder):
    """See :class:`RecordEncoder`. Texts are put together column by column, each after ``header``."""

    def __init__(self, *, ignore_nulls: bool, header: bytes = b"") -> None:
        self._header = header
        self._writer = JsonWriter(ValueText(), ignore_nulls=ignore_nulls)

    def encode(self, column: pa.Array) -> pa.Array:
        try:
            return self._encode(column)
        except pa.ArrowInvalid as error:
            raise first_bad_row(column, self._encode, error) from error

    def _encode(self, column: pa.Array) -> pa.Array:
        records = self._writer.values(column).cast(pa.binary())
        return pc.binary_replace_slice(records, 0, 0, self._header) if self._header else records
