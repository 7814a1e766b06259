"""Makes Arrow batches of what was fetched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.source import RecordEmitter
from penstock.testing._samples.source.source._split import LinesSplit

__all__ = ["LinesRecordEmitter"]


class LinesRecordEmitter(RecordEmitter[bytes, LinesSplit]):
    """One batch for each element: a number in each line."""

    def emit_record(self, element: bytes, split_state: Any) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": pa.array([int(line) for line in element.split()], pa.int64())})
