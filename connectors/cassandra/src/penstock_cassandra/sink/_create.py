"""The sink for a delivery."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.sink import Sink
from penstock_cassandra.options import SinkOptions
from penstock_cassandra.sink._ahead import WriteAheadCassandraSink
from penstock_cassandra.sink._plain import PlainCassandraSink
from penstock_cassandra.sink._upsert import UpsertCassandraSink

__all__ = ["create_sink"]

_KINDS: dict[str, type[Any]] = {
    "exactly-once": UpsertCassandraSink,
    "write-ahead": WriteAheadCassandraSink,
    "at-least-once": PlainCassandraSink,
}


def create_sink(options: SinkOptions, schema: pa.Schema) -> Sink:
    """By ``options.delivery``."""
    sink: Sink = _KINDS[options.delivery](options, schema)
    return sink
