"""The source: ties enumerator, reader, emitter and the stored forms together."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.source import (
    EnumeratorContext,
    ReaderContext,
    ReadLimits,
    RecordEmitter,
    Source,
    SplitEnumerator,
    SplitReader,
)
from penstock.testing._samples.source._options import SourceOptions
from penstock.testing._samples.source.source._emitter import LinesRecordEmitter
from penstock.testing._samples.source.source._enumerator import LinesSplitEnumerator
from penstock.testing._samples.source.source._reader import LinesSplitReader
from penstock.testing._samples.source.source._split import SPLIT_SERIALIZER, STATE_SERIALIZER, LinesSplit

__all__ = ["LinesSource"]


@dataclass(frozen=True)
class LinesSource(Source[LinesSplit, int]):
    """Makes the enumerator, and for each task a reader and an emitter."""

    options: SourceOptions
    split_serializer = SPLIT_SERIALIZER
    enumerator_serializer = STATE_SERIALIZER

    def fixed_schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int64())])

    def read_limits(self) -> ReadLimits:
        return ReadLimits(max_groups=self.options.max_splits)

    def create_enumerator(self, context: EnumeratorContext, checkpoint: int | None) -> SplitEnumerator[LinesSplit, int]:
        return LinesSplitEnumerator(self.options.path, checkpoint or 0)

    def create_reader(self, context: ReaderContext) -> SplitReader[bytes, LinesSplit]:
        return LinesSplitReader(self.options.path)

    def create_emitter(self, context: ReaderContext) -> RecordEmitter[bytes, LinesSplit]:
        return LinesRecordEmitter()
