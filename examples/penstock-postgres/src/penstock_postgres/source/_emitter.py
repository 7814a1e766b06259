"""What is fetched is what is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.source import RecordEmitter
from penstock_postgres.source._split import PostgresSplit

__all__ = ["PostgresRecordEmitter"]


class PostgresRecordEmitter(RecordEmitter[pa.RecordBatch, PostgresSplit]):
    """An element is a batch already."""

    def emit_record(self, element: pa.RecordBatch, split_state: Any) -> Iterator[pa.RecordBatch]:
        yield element
