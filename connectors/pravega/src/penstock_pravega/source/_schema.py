"""The columns of the source."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import BadConfigurationError

__all__ = ["event_schema", "validate"]


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


def validate(schema: pa.Schema, expected: pa.Schema) -> None:
    """Raises BadConfigurationError unless every column of ``schema`` is one of ``expected``, of its type."""
    for field in schema:
        if field.name not in expected.names:
            hint = " (set includePosition to true)" if field.name == "position" else ""
            raise BadConfigurationError(
                f"the schema has a column '{field.name}'{hint}; there are {', '.join(expected.names)}"
            )
        wanted = expected.field(field.name).type
        if field.type != wanted:
            raise BadConfigurationError(f"the schema has '{field.name}' as {field.type}, and it is {wanted}")
