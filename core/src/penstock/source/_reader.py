"""The loop inside a task: a fetcher thread, a bounded queue, the emitter in the main thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, Generic

import pyarrow as pa

from penstock.errors import FatalError
from penstock.retry import Retries
from penstock.serialization.values import cast_column
from penstock.source._contracts import ReaderContext, RecordsBySplits, Source, SplitT

__all__ = ["SourceReader"]

_QUEUE_FETCHES = 2
_JOIN_SECONDS = 10.0


class SourceReader(Generic[SplitT]):
    """Reads a list of splits as Arrow batches of ``context.schema``.

    A fetch that fails in a way that may pass is made again, for as long as ``context.retry`` says and nothing has come.
    So is decoding, up to the first batch of an element.
    Memory is bounded by ``_QUEUE_FETCHES + 2`` fetches. Leaving the iteration early (the task was killed, the consumer
    had enough) wakes the split reader up, ends the fetcher thread and closes the reader.
    """

    def __init__(self, source: Source[SplitT, Any], context: ReaderContext) -> None:
        self._context = context
        retry, metrics = context.retry, context.metrics
        self._reader = retry.call(lambda: source.create_reader(context), "opening a reader", metrics)
        self._emitter = source.create_emitter(context)
        self._fetched: queue.Queue[RecordsBySplits[Any] | BaseException] = queue.Queue(_QUEUE_FETCHES)
        self._stopped = threading.Event()

    def read(self, splits: Sequence[SplitT]) -> Generator[pa.RecordBatch, None, None]:
        """Yields every row of ``splits``, split by split in fetch order. Raises what the reader or the emitter raises.

        Once in the life of a reader: its split reader is closed then. FatalError for a second time.
        """
        if self._stopped.is_set():
            raise FatalError("this reader was used already: create another one")
        states = {split.split_id: self._emitter.split_state(split) for split in splits}
        if len(states) != len(splits):
            raise FatalError("two splits of one task share a split id")
        self._reader.handle_splits_changes(splits)
        fetcher = threading.Thread(target=self._fetch_all, args=(set(states),), name="penstock-fetcher", daemon=True)
        fetcher.start()
        try:
            while states:
                fetched = self._fetched.get()
                if isinstance(fetched, BaseException):
                    raise fetched
                for split_id, element in fetched.records:
                    yield from self._conform(self._emit(partial(self._emitter.emit_record, element, states[split_id])))
                for split_id in fetched.finished_splits:
                    yield from self._conform(self._emit(partial(self._emitter.finish_split, states.pop(split_id))))
        finally:
            self._stopped.set()
            self._reader.wake_up()
            self._drain()
            fetcher.join(_JOIN_SECONDS)

    def _emit(self, emit: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Yields what ``emit`` returns. If it fails before its first batch in a way that may pass, it is called again:
        decoding may need a service, such as a schema registry.
        """
        retries = Retries(self._context.retry, "decoding", self._context.metrics)
        while True:
            try:
                batches = iter(emit())
                first = next(batches, None)
            except Exception as error:
                self._stopped.wait(retries.failed(error))
            else:
                break
        retries.worked()
        if first is not None:
            yield first
            yield from batches

    def _fetch_all(self, unfinished: set[str]) -> None:
        retries = Retries(self._context.retry, "reading", self._context.metrics)
        try:
            while unfinished and not self._stopped.is_set():
                try:
                    fetched = self._reader.fetch()
                except Exception as error:
                    self._stopped.wait(retries.failed(error))
                    continue
                unfinished.difference_update(fetched.finished_splits)
                if fetched.records or fetched.finished_splits:
                    retries.worked()
                    self._hand_over(fetched)
        except BaseException as error:  # handed to the main thread, which raises it
            self._hand_over(error)
        finally:
            self._reader.close()

    def _hand_over(self, item: RecordsBySplits[Any] | BaseException) -> None:
        while not self._stopped.is_set():
            try:
                self._fetched.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def _drain(self) -> None:
        while True:
            try:
                self._fetched.get_nowait()
            except queue.Empty:
                return

    def _conform(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = self._context.schema
        for batch in batches:
            if batch.num_rows == 0:
                continue
            self._context.metrics.add("rows_read", batch.num_rows)
            yield batch if batch.schema.equals(schema) else _cast(batch, schema)


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.names != schema.names:
        raise FatalError(f"a reader returned the columns {batch.schema.names}, expected {schema.names}")
    columns = [cast_column(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
