"""A struct column to JSON records."""

from __future__ import annotations

import pyarrow as pa

from penstock.serialization.formats._contracts import RecordEncoder
from penstock.serialization.formats._rows import first_bad_row
from penstock.serialization.values import JsonWriter, ValueText

__all__ = ["JsonEncoder"]


class JsonEncoder(RecordEncoder):
    """See :class:`RecordEncoder`. Texts are put together column by column."""

    def __init__(self, *, ignore_nulls: bool) -> None:
        self._writer = JsonWriter(ValueText(), ignore_nulls=ignore_nulls)

    def encode(self, column: pa.Array) -> pa.Array:
        try:
            return self._encode(column)
        except pa.ArrowInvalid as error:
            raise first_bad_row(column, self._encode, error) from error

    def _encode(self, column: pa.Array) -> pa.Array:
        return self._writer.values(column).cast(pa.binary())
