"""The contracts of a source: what an author writes to read a system, batch and stream.

An author writes a :class:`SplitEnumerator` (what there is to read), a :class:`SplitReader` (how to fetch it), a
:class:`RecordEmitter` (how fetched elements become Arrow batches) and two serializers; :class:`Source` ties them.
The shape follows Flink's unified source (FLIP-27). Two templates write most of it: :class:`SimpleSource`, for pieces
that never change, and :mod:`penstock.source.log`, for logs of partitions.
"""

from penstock.source._bad_records import BadRecordPolicy
from penstock.source._columns import check_columns
from penstock.source._constant_columns import ConstantColumns
from penstock.source._contracts import (
    BatchEnumerator,
    EnumeratorContext,
    ReaderContext,
    ReadLimits,
    RecordEmitter,
    RecordsBySplits,
    Source,
    SourceSplit,
    SplitEnumerator,
    SplitReader,
    SupportsExplain,
    SupportsFilterPushDown,
    SupportsOffsetAdoption,
)
from penstock.source._filters import ColumnFilter
from penstock.source._reader import SourceReader
from penstock.source._simple import SimpleSource, SimpleSplit

__all__ = [
    "BadRecordPolicy",
    "BatchEnumerator",
    "ColumnFilter",
    "ConstantColumns",
    "EnumeratorContext",
    "ReadLimits",
    "ReaderContext",
    "RecordEmitter",
    "RecordsBySplits",
    "SimpleSource",
    "SimpleSplit",
    "Source",
    "SourceReader",
    "SourceSplit",
    "SplitEnumerator",
    "SplitReader",
    "SupportsExplain",
    "SupportsFilterPushDown",
    "SupportsOffsetAdoption",
    "check_columns",
]
