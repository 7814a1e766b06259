"""Counting: a source without state, and the same with it."""

from __future__ import annotations

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

SCHEMA = pa.schema([("number", pa.int64())])


@dataclass(frozen=True)
class Numbers:
    """The numbers from ``first`` to below ``last``."""

    first: int
    last: int

    @property
    def split_id(self) -> str:
        return str(self.first)

    @property
    def size_bytes(self) -> int:
        return 8 * (self.last - self.first)

    @property
    def group(self) -> str:
        return self.split_id


class CountEnumerator(SplitEnumerator[Numbers, int]):
    """Hands out one range for each batch, without end."""

    def __init__(self, position: int, rows_per_batch: int) -> None:
        self._position = position
        self._rows_per_batch = rows_per_batch
        self._batches_left: int | None = None  # no end

    def start(self) -> None:
        """There is nothing to discover."""

    def handle_split_request(self) -> Numbers | None:
        if self.is_exhausted():
            return None
        if self._batches_left is not None:
            self._batches_left -= 1
        first, self._position = self._position, self._position + self._rows_per_batch
        return Numbers(first, self._position)

    def take_batch(self, limits: ReadLimits) -> list[Numbers]:
        split = self.handle_split_request()
        return [split] if split is not None else []

    def prepare_for_available_now(self) -> None:
        """The numbers never end, so what is there now is one batch of them."""
        self._batches_left = 1

    def is_exhausted(self) -> bool:
        return self._batches_left == 0

    def add_splits_back(self, splits: Sequence[Numbers]) -> None:
        if splits:
            self._position = min(split.first for split in splits)
            self._batches_left = None if self._batches_left is None else 1

    def snapshot_state(self) -> int:
        return self._position


class CountReader(SplitReader[Numbers, Numbers]):
    """Has nothing to fetch: the split says it all."""

    def __init__(self) -> None:
        self._splits: list[Numbers] = []

    def handle_splits_changes(self, splits: Sequence[Numbers]) -> None:
        self._splits += splits

    def fetch(self) -> RecordsBySplits[Numbers]:
        split = self._splits.pop(0)
        return RecordsBySplits([(split.split_id, split)], [split.split_id])

    def wake_up(self) -> None:
        """A fetch never waits."""

    def close(self) -> None:
        """Nothing is open."""


class CountEmitter(RecordEmitter[Numbers, Numbers]):
    _ROWS = 10_000

    def emit_record(self, element: Numbers, split_state: Any) -> Iterator[pa.RecordBatch]:
        for first in range(element.first, element.last, self._ROWS):
            numbers = range(first, min(first + self._ROWS, element.last))
            yield pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


@dataclass(frozen=True)
class CountSource(Source[Numbers, int]):
    """Begins at ``first`` whenever its query is started."""

    first: int
    rows_per_batch: int
    split_serializer = JsonSerializer(1, lambda s: [s.first, s.last], lambda version, fields: Numbers(*fields))
    enumerator_serializer = JsonSerializer(1, lambda position: position, lambda version, fields: int(fields))

    def fixed_schema(self) -> pa.Schema:
        return SCHEMA

    def create_enumerator(self, context: EnumeratorContext, checkpoint: int | None) -> CountEnumerator:
        return CountEnumerator(self.first, self.rows_per_batch)

    def create_reader(self, context: ReaderContext) -> CountReader:
        return CountReader()

    def create_emitter(self, context: ReaderContext) -> CountEmitter:
        return CountEmitter()


class ResettableCountSource(CountSource):
    """Goes on where it was: the whole difference."""

    def create_enumerator(self, context: EnumeratorContext, checkpoint: int | None) -> CountEnumerator:
        return CountEnumerator(self.first if checkpoint is None else checkpoint, self.rows_per_batch)


class CountConnector(Connector):
    summary = "numbers, from the start again after a restart"
    source_options = OptionSet(
        [
            Option("start", "The first number", kind="int", default="0"),
            Option("rowsPerBatch", "Numbers in a micro-batch", kind="int", default="1000", minimum=1),
        ]
    )
    capabilities = frozenset({Capability.STREAM_READ})

    def create_source(self, options: OptionValues) -> CountSource:
        return CountSource(options["start"], options["rowsPerBatch"])

    def describe_guarantee(self) -> str:
        return "none: it begins anew"


class ResettableCountConnector(CountConnector):
    summary = "numbers"

    def create_source(self, options: OptionValues) -> CountSource:
        return ResettableCountSource(options["start"], options["rowsPerBatch"])

    def describe_guarantee(self) -> str:
        return "every number once"
