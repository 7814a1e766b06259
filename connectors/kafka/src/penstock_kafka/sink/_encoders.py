"""Formats that turn the columns ``key`` and ``value`` into bytes."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.serialization.formats import RecordEncoder, create_encoder
from penstock_kafka.options import SinkOptions

__all__ = ["create_encoders"]


def create_encoders(options: SinkOptions, schema: pa.Schema) -> dict[str, RecordEncoder]:
    """An encoder for ``key`` and for ``value``, where the options name a format other than binary. Driver.

    Raises BadConfigurationError for a format that can't write the column, RetriableError if a registry is away.
    """
    columns = {field.name.lower(): field for field in schema}
    encoders: dict[str, RecordEncoder] = {}
    for part, chosen in (("key", options.key_format), ("value", options.value_format)):
        if chosen.is_raw:
            continue
        if part not in columns:
            raise BadConfigurationError(f"option '{part}.format' is {chosen.name}, but there is no column '{part}'")
        # A registry files schemas under the topic's name.
        own = {"part": part, **({"topic": options.topic} if options.topic else {})} if chosen.name == "avro" else {}
        encoders[part] = create_encoder(chosen.name, {**own, **dict(chosen.options)}, columns[part].type)
    return encoders
