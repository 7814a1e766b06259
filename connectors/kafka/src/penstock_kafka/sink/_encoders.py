"""Formats that turn the columns ``key`` and ``value`` into bytes."""

from __future__ import annotations

import pyarrow as pa

from penstock.serialization.formats import RecordEncoder
from penstock_kafka.options import SinkOptions

__all__ = ["create_encoders"]


def create_encoders(options: SinkOptions, schema: pa.Schema) -> dict[str, RecordEncoder]:
    """An encoder for ``key`` and for ``value``, where the options name a format other than binary. Driver.

    Raises BadConfigurationError for a format that can't write the column, RetriableError if a registry is away.
    """
    formats = (options.key_format, options.value_format)
    found = {one.part: one.create_encoder(schema, topic=options.topic) for one in formats}
    return {part: encoder for part, encoder in found.items() if encoder is not None}
