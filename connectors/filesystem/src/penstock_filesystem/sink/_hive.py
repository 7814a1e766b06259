"""Buckets by columns, ``column=value``, named as Hive and Spark name them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock_filesystem.sink._bucket_assigner import BucketAssigner

__all__ = ["ColumnsBucketAssigner", "escape_path_name"]

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


def escape_path_name(text: str) -> str:
    """Escapes what Hive and Spark escape in a partition's directory: ``a/b`` → ``a%2Fb``."""
    return _ESCAPED.sub(lambda match: f"%{ord(match.group()):02X}", text)


def _value_text(value: Any) -> str:
    if value is None or value == "":
        return NULL_PARTITION
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S")
        text += f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
        return escape_path_name(text)
    return escape_path_name(str(value))


class ColumnsBucketAssigner(BucketAssigner):
    """A directory level per column. The files leave the columns out, as Spark's ``partitionBy`` does.

    Null and the empty string go to ``__HIVE_DEFAULT_PARTITION__``; timestamps are written in UTC.
    """

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns

    def bucket_ids(self, batch: pa.RecordBatch, now_ms: int) -> pa.Array:
        """See the base class."""
        levels = [self._level(name, batch.column(batch.schema.get_field_index(name))) for name in self._columns]
        return levels[0] if len(levels) == 1 else pc.binary_join_element_wise(*levels, "/")

    def _level(self, name: str, values: pa.Array) -> pa.Array:
        if pa.types.is_timestamp(values.type) and values.type.tz:
            values = values.cast(pa.timestamp(values.type.unit))
        encoded = values.dictionary_encode(null_encoding="encode")
        prefix = escape_path_name(name)
        # In Python for the distinct values only: there are as many as directories.
        names = pa.array([f"{prefix}={_value_text(value)}" for value in encoded.dictionary.to_pylist()], pa.string())
        return names.take(encoded.indices)

    def columns_left_out(self) -> tuple[str, ...]:
        """See the base class."""
        return self._columns

    def validate(self, schema: pa.Schema) -> None:
        """See the base class."""
        for name in self._columns:
            index = schema.get_field_index(name)
            if index < 0:
                raise BadConfigurationError(
                    f"option 'partitionColumns': no column '{name}' (there are: {', '.join(schema.names)})"
                )
            kind = schema.field(index).type
            if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
                raise BadConfigurationError(f"option 'partitionColumns': '{name}' is {kind}: cast it to string")
        if set(self._columns) >= set(schema.names):
            raise BadConfigurationError("option 'partitionColumns' names every column: nothing is left for the files")
