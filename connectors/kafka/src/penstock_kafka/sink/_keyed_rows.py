"""Rows under a key as the columns of records: for topics that keep the last record of each key."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError
from penstock.serialization.values import is_text
from penstock.sink import ChangeColumns

__all__ = ["KeyedRows"]


class KeyedRows:
    """Makes ``key`` and ``value`` out of a row; the value of a row that is deleted is null. Picklable.

    The key is a struct of the key columns, or the one that there is where no format encodes it. The value is a struct
    of all columns but those of the operation and of unavailable values.

    Raises BadConfigurationError for rows of ``schema`` that can't be written so.
    """

    def __init__(self, schema: pa.Schema, changes: ChangeColumns, *, key_is_raw: bool) -> None:
        changes.check_schema(schema)
        self._changes = changes
        self._key_is_raw = key_is_raw
        keys = [schema.field(name) for name in changes.keys]
        if key_is_raw and (len(keys) > 1 or not _is_raw(keys[0].type)):
            raise BadConfigurationError(
                f"option 'keyColumns': {', '.join(changes.keys)} can't be a key as it is, only one column of text or "
                "bytes can: set the option 'key.format', for example to json"
            )
        left_out = {changes.operation, changes.unavailable}
        self._fields = [field for field in schema if field.name not in left_out]
        key = keys[0].type if key_is_raw else pa.struct(keys)
        self.schema = pa.schema([pa.field("key", key, nullable=False), pa.field("value", pa.struct(self._fields))])

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns rows of :attr:`schema`. Raises BadDataError for a row that can't be written, with its values."""
        self._changes.check_rows(batch)
        for name in self._changes.unavailable_in(batch):
            raise BadDataError(
                f"column '{self._changes.unavailable}' names '{name}': a record has the whole row, and the database "
                "did not send this value. Let it send old rows in full (PostgreSQL: replica identity full)"
            )
        keys = [batch.column(name) for name in self._changes.keys]
        key = keys[0] if self._key_is_raw else pa.StructArray.from_arrays(keys, fields=list(self.schema.field(0).type))
        columns = [batch.column(field.name) for field in self._fields]
        value = pa.StructArray.from_arrays(columns, fields=self._fields, mask=self._changes.deletes(batch))
        return pa.RecordBatch.from_arrays([key, value], schema=self.schema)


def _is_raw(kind: pa.DataType) -> bool:
    return bool(is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
