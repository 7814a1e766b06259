"""The columns of the source."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["event_schema"]


def event_schema(value: pa.DataType, *, position: bool = False) -> pa.Schema:
    """``value``: the event, decoded; ``stream`` (``scope/stream``), ``segment`` (its id: epoch × 2³² + number) and
    ``offset`` (of the event's first byte in the segment) name it for good; ``position`` does so in one text.
    """
    fields = [
        pa.field("value", value),
        pa.field("stream", pa.string()),
        pa.field("segment", pa.int64()),
        pa.field("offset", pa.int64()),
    ]
    return pa.schema([*fields, pa.field("position", pa.string())] if position else fields)
