"""The simplest template: pieces that never change, listed by one method and read by another.

An author writes :meth:`SimpleSource.find_splits` and :meth:`SimpleSource.read_split`. Good for thousands of pieces (the
files of a directory, the days of a table): the state of a stream is the ids of all that were handed out, and grows with
them. For more, write an enumerator.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from penstock.errors import PenstockError, RetriableError
from penstock.serialization import JsonSerializer
from penstock.source._contracts import (
    EnumeratorContext,
    ReaderContext,
    RecordEmitter,
    RecordsBySplits,
    Source,
    SplitEnumerator,
    SplitReader,
)

__all__ = ["SimpleSource", "SimpleSplit"]

_FIRST_LOOK_MS = 60_000
_Ids = frozenset[str]


@dataclass(frozen=True)
class SimpleSplit:
    """A piece of data that never changes, by its name. ``size_bytes`` is an estimate."""

    split_id: str
    size_bytes: int = 0

    @property
    def group(self) -> str:
        """See :class:`penstock.source.SourceSplit`."""
        return self.split_id


class SimpleSource(Source[SimpleSplit, _Ids]):
    """See the module. Holds configuration only, like every source."""

    discovery_interval_ms: ClassVar[int] = 1000
    split_serializer = JsonSerializer(1, lambda split: dict(vars(split)), lambda version, fields: SimpleSplit(**fields))
    enumerator_serializer = JsonSerializer(1, sorted, lambda version, ids: frozenset(ids))

    @abstractmethod
    def find_splits(self) -> Sequence[SimpleSplit]:
        """Every piece there is now, in the order in which they are to be read. Driver, in a background thread."""

    @abstractmethod
    def read_split(self, split: SimpleSplit, context: ReaderContext) -> Iterator[pa.RecordBatch]:
        """Returns the rows of one piece, with the columns of ``context.schema``; a few MiB in each batch. Task.

        A task that is killed closes the iterator between two batches.
        """

    def create_enumerator(
        self, context: EnumeratorContext, checkpoint: _Ids | None
    ) -> SplitEnumerator[SimpleSplit, _Ids]:
        return _SimpleEnumerator(self, context, checkpoint or frozenset())

    def create_reader(self, context: ReaderContext) -> SplitReader[pa.RecordBatch, SimpleSplit]:
        return _SimpleReader(self, context)

    def create_emitter(self, context: ReaderContext) -> RecordEmitter[pa.RecordBatch, SimpleSplit]:
        return _SimpleEmitter()


class _SimpleEnumerator(SplitEnumerator[SimpleSplit, _Ids]):
    def __init__(self, source: SimpleSource, context: EnumeratorContext, done: _Ids) -> None:
        self._source = source
        self._context = context
        self._done = set(done)
        self._waiting: dict[str, SimpleSplit] = {}
        self._looked = self._end_is_fixed = False
        self._problem: Exception | None = None

    def start(self) -> None:
        self._context.call_async(self._source.find_splits, self._found, interval_ms=self._source.discovery_interval_ms)

    def _found(self, splits: Sequence[SimpleSplit] | None, error: BaseException | None) -> None:
        self._looked, self._problem = True, None
        if error is not None:
            # For who asks for pieces, and until a look succeeds: otherwise each look would be an outage of its own.
            self._problem = error if isinstance(error, (PenstockError, OSError)) else RetriableError(f"{error!r}")
            self._problem.__cause__ = None if self._problem is error else error
            return
        if not self._end_is_fixed:
            self._waiting = {split.split_id: split for split in splits or () if split.split_id not in self._done}

    def handle_split_request(self) -> SimpleSplit | None:
        self._context.await_handlers(lambda: self._looked, _FIRST_LOOK_MS)
        if not self._waiting:
            if self._problem is not None:
                raise self._problem
            return None
        split = self._waiting.pop(next(iter(self._waiting)))
        self._done.add(split.split_id)
        return split

    def add_splits_back(self, splits: Sequence[SimpleSplit]) -> None:
        self._done.difference_update(split.split_id for split in splits)
        self._waiting = {split.split_id: split for split in splits} | self._waiting

    def snapshot_state(self) -> _Ids:
        return frozenset(self._done)

    def prepare_for_available_now(self) -> None:
        self._found(self._source.find_splits(), None)
        self._end_is_fixed = True

    def is_exhausted(self) -> bool:
        return self._end_is_fixed and not self._waiting


class _SimpleReader(SplitReader[pa.RecordBatch, SimpleSplit]):
    """One batch for each fetch, so that memory is bounded by the author's batches."""

    def __init__(self, source: SimpleSource, context: ReaderContext) -> None:
        self._source = source
        self._context = context
        self._splits: list[SimpleSplit] = []
        self._rows: Generator[pa.RecordBatch, None, None] | None = None
        self._delivered = 0
        self._woken = threading.Event()

    def handle_splits_changes(self, splits: Sequence[SimpleSplit]) -> None:
        self._splits += splits

    def fetch(self) -> RecordsBySplits[pa.RecordBatch]:
        if self._woken.is_set():
            return RecordsBySplits()
        split = self._splits[0]
        try:
            if self._rows is None:
                # After a failure the piece, which never changes, is read again; what was delivered of it is left out.
                self._rows = _without(self._delivered, self._source.read_split(split, self._context))
            batch = next(self._rows, None)
        except Exception:
            self._rows = None
            raise
        if batch is not None:
            self._delivered += batch.num_rows
            return RecordsBySplits([(split.split_id, batch)])
        self._rows, self._delivered = None, 0
        del self._splits[0]
        return RecordsBySplits([], [split.split_id])

    def wake_up(self) -> None:
        self._woken.set()

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()


def _without(rows: int, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """Yields ``batches`` without the first ``rows`` of them."""
    try:
        for batch in batches:
            left_out = min(rows, batch.num_rows)
            rows -= left_out
            if left_out < batch.num_rows or not batch.num_rows:
                yield batch.slice(left_out)
    finally:
        if isinstance(batches, Generator):
            batches.close()


class _SimpleEmitter(RecordEmitter[pa.RecordBatch, SimpleSplit]):
    def emit_record(self, element: pa.RecordBatch, split_state: SimpleSplit) -> Iterator[pa.RecordBatch]:
        yield element
