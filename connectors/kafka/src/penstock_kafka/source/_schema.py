"""The columns of the source: Spark's own, or with decoded keys and values."""

from __future__ import annotations

import pyarrow as pa

from penstock.dead_letters import LETTER_TYPE
from penstock_kafka.client import HEADERS_TYPE

__all__ = ["record_schema"]


def record_schema(
    key: pa.DataType, value: pa.DataType, *, headers: bool = False, bad_record_column: str | None = None
) -> pa.Schema:
    """Names, order and types of Spark's Kafka source; the dead-letter column comes last, if it has a name."""
    fields = [
        pa.field("key", key),
        pa.field("value", value),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    if headers:
        fields.append(pa.field("headers", HEADERS_TYPE))
    if bad_record_column is not None:
        fields.append(pa.field(bad_record_column, LETTER_TYPE))
    return pa.schema(fields)
