"""Reading: a Source as Spark's batch reader and stream reader."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.error_codes import OTHER_SOURCE
from penstock.errors import FatalError
from penstock.metrics import Metrics
from penstock.options import OptionValues, held_by_checkpoint
from penstock.printable import get_logger, printable
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.serialization import MALFORMED, shortened
from penstock.source import ReadLimits, Source, SplitEnumerator, SupportsFilterPushDown, SupportsOffsetAdoption
from penstock.spark._coordinator import Coordinator
from penstock.spark._filters import column_filter
from penstock.spark._offsets import StreamOffset, pack_splits
from penstock.spark._partitions import pack, read_partition

__all__ = ["BatchReader", "FilteringBatchReader", "StreamReader"]

_log = get_logger("penstock")
UNREADABLE: tuple[type[Exception], ...] = (FatalError, *MALFORMED)
_USE_ITS_OWN = "use the checkpoint of this query, or start with a new checkpoint location"
_OF_ANOTHER = f"the checkpoint holds offsets of another source: {_USE_ITS_OWN}"
ResultT = TypeVar("ResultT")


class _Reader:
    """What a batch read and a stream have alike: the source, and how a task reads of it."""

    def __init__(
        self,
        source: Source[Any, Any],
        schema: pa.Schema,
        parallelism: int,
        accumulator: Any,
        retry: RetryPolicy = NO_RETRIES,
    ) -> None:
        self._source = source
        self._schema = schema
        self._parallelism = parallelism
        self._accumulator = accumulator
        self._retry = retry

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See :func:`read_partition`."""
        return read_partition(self._source, self._schema, partition, self._accumulator, self._retry)


class BatchReader(_Reader, DataSourceReader):
    """A bounded read. ``partitions`` runs on the driver, ``read`` in tasks."""

    def partitions(self) -> list[InputPartition]:
        """Every split there is now, packed."""
        return self._retry.call(self._partitions, "planning")

    def _partitions(self) -> list[InputPartition]:
        coordinator = Coordinator(parallelism=self._parallelism, retry=self._retry)
        try:
            return pack(self._source.list_splits(coordinator), self._source, self._parallelism)
        finally:
            coordinator.close()


class FilteringBatchReader(BatchReader):
    """The same for sources that take filters: Spark refuses a reader that does while its setting forbids it."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Returns those that Spark has to apply itself. Driver, before :meth:`partitions`."""
        assert isinstance(self._source, SupportsFilterPushDown)
        offered = {number: neutral for number, one in enumerate(filters) if (neutral := column_filter(one)) is not None}
        source = self._source
        self._source, applied = self._retry.call(lambda: source.push_filters(list(offered.values())), "planning")
        for number, one in enumerate(filters):
            if offered.get(number) not in applied:
                yield one


class StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. Everything but ``read`` runs in one long-lived process on the driver, in its main thread.

    The enumerator lives here. It is made, or restored, when Spark first asks for an offset; Spark's ``start`` is what
    it is restored from, so there is no second store. The offset also holds the ``options`` that a restart must compare,
    and ``name``, that of the format.
    """

    def __init__(
        self,
        source: Source[Any, Any],
        schema: pa.Schema,
        parallelism: int,
        accumulator: Any,
        options: OptionValues | None = None,
        name: str = "",
        retry: RetryPolicy = NO_RETRIES,
    ) -> None:
        super().__init__(source, schema, parallelism, accumulator, retry)
        self._name = name
        self._metrics: Metrics | None = Metrics()
        self._coordinator: Coordinator | None = None
        self._enumerator: SplitEnumerator[Any, Any] | None = None
        self._position: StreamOffset | None = None
        self._assigned: list[Any] = []
        self._before_assigned: StreamOffset | None = None
        self._completed = 0
        self._available_now = False
        self._options = options
        self._owner = f"source {name}" if name else "source"
        self._held: Mapping[str, str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get the configuration, never the enumerator."""
        state = dict(self.__dict__)
        state.update(_coordinator=None, _enumerator=None, _position=None, _assigned=[], _before_assigned=None)
        state.update(_options=None, _metrics=None)
        return state

    def initialOffset(self) -> dict[str, Any]:
        """Returns the offset of a stream that has read nothing."""
        return StreamOffset(seq=0, enumerator=None).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the source's limit. Spark knows one limit at a time; :meth:`latestOffset` applies all of them.

        It is never ``ReadAllAvailable``: only Spark's trigger ``once`` asks with that.
        """
        limits = self._source.read_limits()
        if limits.max_groups is not None:
            return ReadMaxFiles(limits.max_groups)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        if limits.max_records is not None:
            return ReadMaxRows(limits.max_records)
        return ReadMaxRows(sys.maxsize)

    def prepareForTriggerAvailableNow(self) -> None:
        """Called before the first offset is asked for."""
        self._available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Takes splits until ``limit`` is met; ``start`` itself if there are none.

        With the trigger ``once`` it takes everything that is there now.
        """
        self._available_now |= isinstance(limit, ReadAllAvailable)
        position = self._offset(start)
        self._compare_options(position)
        enumerator = self._planning(lambda: self._enumerator_at(position))
        # Spark reports no commit of a run's last batch; but it continues from an offset only once that is committed.
        self._complete(position)
        limits = ReadLimits() if isinstance(limit, ReadAllAvailable) else self._source.read_limits()
        splits = self._planning(lambda: enumerator.take_batch(limits))
        if not splits and not enumerator.wants_checkpoint():
            return start
        end = StreamOffset(
            seq=position.seq + 1,
            enumerator=self._source.enumerator_serializer.pack(enumerator.snapshot_state()),
            splits=pack_splits(splits, self._source.split_serializer),
            count=len(splits),
            size_bytes=sum(split.size_bytes for split in splits),
            end=enumerator.is_exhausted(),
            final=enumerator.has_ended(),
            options=self._held,
            source=self._name,
        )
        self._before_assigned, self._assigned, self._position = position, splits, end
        return end.to_json()

    def _planning(self, call: Callable[[], ResultT]) -> ResultT:
        return self._retry.call(call, "planning", self._metrics)

    def _compare_options(self, position: StreamOffset) -> None:
        """Compares the options with those that the checkpoint holds, once: when a run begins."""
        if self._options is not None:
            self._held = held_by_checkpoint(self._options, position.options, owner=self._owner)
            self._options = None

    def _offset(self, value: dict[str, Any]) -> StreamOffset:
        """Returns an offset of this source, or what one that another connector left in the checkpoint would be here."""
        of = "another source"
        if isinstance(value, dict) and "penstock" in value:
            offset = StreamOffset.from_json(value)
            if not (offset.source and self._name) or offset.source == self._name:
                return offset
            of = printable(offset.source)
        state = None
        if isinstance(self._source, SupportsOffsetAdoption) and isinstance(value, dict):
            state = self._source.adopt_offset(value)
        if state is None:
            raise FatalError(
                f"{self._owner}: the checkpoint holds offsets of {of}: {_USE_ITS_OWN}", error_code=OTHER_SOURCE
            )
        return StreamOffset(seq=0, enumerator=self._source.enumerator_serializer.pack(state), adopted=True)

    def _state(self, position: StreamOffset) -> Any:
        stored = position.enumerator
        with self._own_forms():
            return None if stored is None else self._source.enumerator_serializer.unpack(stored)

    @contextlib.contextmanager
    def _own_forms(self) -> Iterator[None]:
        """Raises that what can't be read is damaged, newer, or of another source: early offsets did not name theirs."""
        try:
            yield
        except UNREADABLE as error:
            reason = shortened(str(error) if isinstance(error, FatalError) else f"{type(error).__name__}: {error}")
            raise FatalError(f"{self._owner}: {_OF_ANOTHER} ({reason})", error_code=OTHER_SOURCE) from error

    def _enumerator_at(self, position: StreamOffset) -> SplitEnumerator[Any, Any]:
        """Returns the enumerator, brought to ``position``."""
        if self._enumerator is not None and self._coordinator is not None:
            self._coordinator.run_handlers()
            if position == self._position:
                return self._enumerator
            if position == self._before_assigned:
                self._enumerator.add_splits_back(self._assigned)
                self._position, self._assigned = position, []
                return self._enumerator
            self._close()
        self._coordinator = Coordinator(self._metrics, parallelism=self._parallelism, retry=self._retry)
        self._enumerator = self._source.create_enumerator(self._coordinator, self._state(position))
        try:
            self._enumerator.start()
            if self._available_now:
                self._enumerator.prepare_for_available_now()
        except Exception:
            self._close()
            raise
        self._position, self._assigned, self._before_assigned = position, [], None
        return self._enumerator

    def await_news(self, timeout_s: float) -> None:
        """Waits until a background call of the enumerator has a result, at most so long. Spark comes by by itself."""
        if self._coordinator is None:
            time.sleep(timeout_s)
        else:
            self._coordinator.await_result(timeout_s)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns the splits that ``end`` holds: the same for every replay."""
        first, last = self._offset(start), self._offset(end)
        self._compare_options(last)  # before a batch that is run again
        if last.adopted:
            assert isinstance(self._source, SupportsOffsetAdoption)
            source = self._source
            splits = self._planning(lambda: source.splits_between(self._state(first), self._state(last)))
            return pack(splits, self._source, self._parallelism)
        if first.seq == last.seq:
            return []
        if last.seq != first.seq + 1:
            raise FatalError(f"offsets {first.seq} and {last.seq} do not follow each other: the offset log was changed")
        with self._own_forms():
            splits = last.unpack_splits(self._source.split_serializer)
        return pack(splits, self._source, self._parallelism)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Returns what waits after the last offset, and the source's own counters; shown in the query's progress.

        Never raises: an error here would end the query, although nothing depends on the answer. What a background call
        has failed with is for the next plan.
        """
        if self._enumerator is None or self._coordinator is None:
            return None
        self._coordinator.run_handlers(keep_failure=True)
        try:
            backlog, event_time = self._enumerator.describe_backlog(), self._enumerator.describe_event_time()
        except Exception as error:
            _log.warning("what waits at %s can't be shown: %r", self._owner, error)
            return None
        shown: dict[str, Any] = {"backlog": backlog, "metrics": self._coordinator.metrics.snapshot()}
        return {**shown, "eventTime": event_time} if event_time else shown

    def commit(self, end: dict[str, Any]) -> None:
        """The batch up to ``end`` is in Spark's commit log."""
        self._complete(self._offset(end))

    def _complete(self, position: StreamOffset) -> None:
        if self._enumerator is not None and position.seq > self._completed:
            self._completed = position.seq
            with self._own_forms():
                enumerator, splits = self._enumerator, position.unpack_splits(self._source.split_serializer)
            self._retry.call(lambda: enumerator.notify_checkpoint_complete(splits), "after a batch", self._metrics)

    def stop(self) -> None:
        """Ends the enumerator and its threads."""
        self._close()

    def _close(self) -> None:
        if self._enumerator is not None:
            self._enumerator.close()
        if self._coordinator is not None:
            self._coordinator.close()
        self._enumerator = self._coordinator = None
