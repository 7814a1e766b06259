"""The columns of a batch as they are sent."""

from __future__ import annotations

import pyarrow as pa

from penstock_kafka.client._contracts import DELIVERY_SCHEMA

__all__ = ["deliverable"]

_BYTES = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
_SENT_AS_IS = {"key": _BYTES, "value": _BYTES, "topic": (pa.string(), pa.large_string())}


def deliverable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """``batch`` with the columns of DELIVERY_SCHEMA that it has, each of a type that is sent as it is."""
    columns, fields = [], []
    for field in DELIVERY_SCHEMA:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            continue
        column = batch.column(index)
        if column.type != field.type and column.type not in _SENT_AS_IS.get(field.name, ()):
            column = column.cast(field.type)
        columns.append(column)
        fields.append(pa.field(field.name, column.type))
    missing = {"topic", "value"} - {field.name for field in fields}
    if missing:
        raise ValueError(f"records to send lack columns {sorted(missing)}")
    if columns[[field.name for field in fields].index("topic")].null_count:
        raise ValueError("records to send have a null topic")
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
