"""The contracts of a source: what an author writes to read a system, batch and stream.

An author writes a :class:`SplitEnumerator` (what there is to read), a :class:`SplitReader` (how to fetch it), a
:class:`RecordEmitter` (how fetched elements become Arrow batches) and two serializers; :class:`Source` ties them.
The shape follows Flink's unified source (FLIP-27).
"""

from penstock.source._contracts import (
    EnumeratorContext,
    ReaderContext,
    ReadLimits,
    RecordEmitter,
    RecordsBySplits,
    Source,
    SourceSplit,
    SplitEnumerator,
    SplitReader,
)
from penstock.source._filters import ColumnFilter
from penstock.source._reader import SourceReader

__all__ = [
    "ColumnFilter",
    "EnumeratorContext",
    "ReadLimits",
    "ReaderContext",
    "RecordEmitter",
    "RecordsBySplits",
    "Source",
    "SourceReader",
    "SourceSplit",
    "SplitEnumerator",
    "SplitReader",
]
