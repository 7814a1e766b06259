"""A segment of rows becomes a file of its name: sent twice, it replaces itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pyarrow as pa

from penstock.sink import Segment, Sender

__all__ = ["MinimalSender"]


class MinimalSender(Sender):
    """Writes a hidden file, and renames it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def send(self, batches: Iterator[pa.RecordBatch], segment: Segment) -> None:
        os.makedirs(self._path, exist_ok=True)
        with open(f"{self._path}/.{segment.id}", "w", encoding="utf-8") as file:
            for batch in batches:
                file.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{self._path}/.{segment.id}", f"{self._path}/{segment.id}.jsonl")
