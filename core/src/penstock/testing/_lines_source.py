"""A small source with an enumerator and a reader of its own, to begin from: numbers in a local file that grows.

A split is a range of bytes that ends behind a line's end; the state is how far has been handed out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.connector import Capability, Connector
from penstock.options import Option, OptionSet, OptionValues
from penstock.serialization import JsonSerializer
from penstock.source import (
    EnumeratorContext,
    ReaderContext,
    ReadLimits,
    RecordEmitter,
    RecordsBySplits,
    Source,
    SplitEnumerator,
    SplitReader,
)

__all__ = ["LinesConnector", "LinesSource"]

_SPLIT_BYTES = 64


@dataclass(frozen=True)
class LinesSplit:
    """The lines from byte ``start`` to byte ``end``."""

    start: int
    end: int

    @property
    def split_id(self) -> str:
        return str(self.start)

    @property
    def size_bytes(self) -> int:
        return self.end - self.start

    @property
    def group(self) -> str:
        return self.split_id


class LinesEnumerator(SplitEnumerator[LinesSplit, int]):
    """Looks at the file when it is asked: that is cheap here. Where it is not, use ``context.call_async``."""

    def __init__(self, path: str, position: int) -> None:
        self._path = path
        self._position = position
        self._stop: int | None = None

    def start(self) -> None:
        pass

    def _end(self) -> int:
        return os.path.getsize(self._path) if os.path.exists(self._path) else 0

    def handle_split_request(self) -> LinesSplit | None:
        stop = self._end() if self._stop is None else self._stop
        if self._position >= stop:
            return None
        with open(self._path, "rb") as file:
            file.seek(min(self._position + _SPLIT_BYTES, stop) - 1)
            file.readline()
            end = file.tell()
        split = LinesSplit(self._position, end)
        self._position = end
        return split

    def add_splits_back(self, splits: Sequence[LinesSplit]) -> None:
        self._position = min(self._position, *(split.start for split in splits)) if splits else self._position

    def snapshot_state(self) -> int:
        return self._position

    def prepare_for_available_now(self) -> None:
        self._stop = self._end()

    def is_exhausted(self) -> bool:
        return self._stop is not None and self._position >= self._stop


class LinesReader(SplitReader[bytes, LinesSplit]):
    """One element for each split: its bytes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._splits: list[LinesSplit] = []

    def handle_splits_changes(self, splits: Sequence[LinesSplit]) -> None:
        self._splits += splits

    def fetch(self) -> RecordsBySplits[bytes]:
        split = self._splits.pop(0)
        with open(self._path, "rb") as file:
            file.seek(split.start)
            return RecordsBySplits([(split.split_id, file.read(split.size_bytes))], [split.split_id])

    def wake_up(self) -> None:
        """Nothing to wake: a fetch never waits."""

    def close(self) -> None:
        """Nothing is kept open."""


class LinesEmitter(RecordEmitter[bytes, LinesSplit]):
    def emit_record(self, element: bytes, split_state: Any) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": pa.array([int(line) for line in element.split()], pa.int64())})


@dataclass(frozen=True)
class LinesSource(Source[LinesSplit, int]):
    """The file, and how many splits a batch takes. The state is the byte that is handed out next."""

    path: str
    max_splits: int | None = None
    split_serializer = JsonSerializer(1, lambda s: [s.start, s.end], lambda version, fields: LinesSplit(*fields))
    enumerator_serializer = JsonSerializer(1, lambda position: position, lambda version, fields: int(fields))

    def fixed_schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int64())])

    def read_limits(self) -> ReadLimits:
        return ReadLimits(max_groups=self.max_splits)

    def create_enumerator(self, context: EnumeratorContext, checkpoint: int | None) -> SplitEnumerator[LinesSplit, int]:
        return LinesEnumerator(self.path, checkpoint or 0)

    def create_reader(self, context: ReaderContext) -> SplitReader[bytes, LinesSplit]:
        return LinesReader(self.path)

    def create_emitter(self, context: ReaderContext) -> RecordEmitter[bytes, LinesSplit]:
        return LinesEmitter()


class LinesConnector(Connector):
    """Register it as an entry point of the group ``penstock.connectors``."""

    summary = "numbers in a file that grows"
    source_options = OptionSet(
        [
            Option("path", "A local file", required=True),
            Option("maxSplitsPerTrigger", "Most splits in a batch", kind="int", minimum=1),
        ]
    )
    capabilities = frozenset(
        {
            Capability.BATCH_READ,
            Capability.STREAM_READ,
            Capability.DISCOVERY,
            Capability.RESCALING,
            Capability.RESUMABLE,
            Capability.ADMISSION_CONTROL,
        }
    )

    def create_source(self, options: OptionValues) -> LinesSource:
        return LinesSource(options["path"], options["maxSplitsPerTrigger"])

    def describe_guarantee(self) -> str:
        return "exactly once: a split is a fixed range of bytes"
