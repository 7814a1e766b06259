"""The write-ahead template: rows are kept in files of the query's own until their batch is decided, then sent.

For systems without transactions whose writes can't be repeated either. Tasks stage their rows as Arrow files beside the
decision log, in segments of bounded size. The driver decides the batch (see :mod:`penstock.sink.two_phase`), then sends
segment by segment, several writers' at a time and each writer's in order, and records each once it was sent. After a
crash it goes on behind the last one recorded.

**The window for duplicates**: a crash after a segment was sent, or a part of it, and before it was recorded. It is then
sent again: at most one segment for each writer that was sending. The same window opens when two processes carry out one
decision at the same time: a driver that was thought dead, or ``penstock finish`` beside a query that is committing.
There is none where sending and recording are one transaction of the target system (see :meth:`Sender.send`), and it
does no harm where the target replaces rows by key. A batch is never sent before it was decided, so rows that come out
otherwise in a replay are not a problem.

After Flink's GenericWriteAheadSink, with its CheckpointCommitter; unlike there a batch is recorded in segments, files
are removed once they were sent, and what was recorded is removed with them.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any, final

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.serialization import JsonSerializer
from penstock.sink._contracts import (
    NOTHING_SERIALIZER,
    CheckpointLocation,
    CommitOutcome,
    Committer,
    Prepared,
    SinkContext,
    SinkWriter,
    TwoPhaseCommitSink,
    WriterContext,
)

__all__ = ["CheckpointCommitter", "FileCheckpointCommitter", "Segment", "Sender", "WriteAheadSink"]


@dataclass(frozen=True)
class Segment:
    """Some rows of one writer, staged. ``number`` counts the segments of one attempt from 0; they are sent in order."""

    batch_id: int
    writer_index: int
    attempt_id: str
    number: int
    rows: int
    size_bytes: int

    @property
    def id(self) -> str:
        """Unique in the world: the batch, the writer, the attempt and the number, with ``-`` between."""
        return f"{self.batch_id}-{self.writer_index}-{self.attempt_id}-{self.number}"


_SEGMENTS: JsonSerializer[Segment] = JsonSerializer(
    1, lambda segment: dict(vars(segment)), lambda version, fields: Segment(**fields)
)


class Sender(ABC):
    """Sends rows to the target system. Driver; one for each thread that sends, used by that thread alone."""

    @abstractmethod
    def send(self, batches: Iterator[pa.RecordBatch], segment: Segment) -> None:
        """Sends the rows of one segment, in order; they are durable on return.

        May record ``segment`` itself, in one transaction with its rows: its checkpoint committer must then find it
        recorded, and recording it once more must change nothing. Raises :class:`penstock.errors.RetriableError` for a
        failure that may pass: the query stops, and the segment is sent again when it is restarted. So a sender itself
        repeats what it knows to be safe.
        """

    def close(self) -> None:  # noqa: B027
        """Frees resources. Called once, also after an error."""


class CheckpointCommitter(ABC):
    """Remembers which segments of one query were sent, best in the target system itself. Driver, one for each thread.

    Made for a query: what it keeps is found by the query's id, and is never another's.
    """

    @abstractmethod
    def is_recorded(self, segment: Segment) -> bool:
        """Whether :meth:`record` was called for ``segment``, by whatever process."""

    @abstractmethod
    def record(self, segment: Segment) -> None:
        """Notes that ``segment`` was sent. Durable on return. Idempotent."""

    @abstractmethod
    def forget(self, before_batch: int) -> None:
        """Removes what is noted of batches below ``before_batch``: nobody will ask for them again."""

    def close(self) -> None:  # noqa: B027
        """Frees resources. Called once, also after an error."""


class FileCheckpointCommitter(CheckpointCommitter):
    """Keeps a note for each segment beside the decision log: for targets that can't keep any themselves."""

    def __init__(self, checkpoint: CheckpointLocation) -> None:
        self._storage = checkpoint.storage
        self._directory = f"{checkpoint.path}/penstock/sent"

    def is_recorded(self, segment: Segment) -> bool:
        """See the contract."""
        return self._storage.size(f"{self._directory}/{segment.id}") is not None

    def record(self, segment: Segment) -> None:
        """See the contract."""
        self._storage.put(f"{self._directory}/{segment.id}", b"sent")

    def forget(self, before_batch: int) -> None:
        """See the contract."""
        names = self._storage.list_names(self._directory)
        self._storage.delete(f"{self._directory}/{name}" for name in names if _batch_of(name) < before_batch)


class WriteAheadSink(TwoPhaseCommitSink[Segment, None]):
    """At least once with a small window, see the module. Built on the driver, pickled to the tasks."""

    #: How large a segment grows, and so how much memory a task and each sending thread takes: twice that and a batch.
    segment_bytes: int = 8 << 20
    #: How many writers' segments are sent at the same time.
    parallel_senders: int = 4

    @abstractmethod
    def create_sender(self, context: SinkContext) -> Sender:
        """A sender, for one thread. Driver."""

    def screen(self, batch: pa.RecordBatch, context: WriterContext) -> pa.RecordBatch:
        """``batch`` without rows that can't be sent and were put aside, durable on return.

        Task, before rows are staged. By default all rows are kept. A row that the target will never take must be found
        here: once its batch is decided it stands in the way of all that come after. Raises
        :class:`penstock.errors.BadDataError`.
        """
        return batch

    def create_checkpoint_committer(self, context: SinkContext) -> CheckpointCommitter:
        """What remembers what was sent, for one thread. Driver. By default files beside the decision log."""
        return FileCheckpointCommitter(_checkpoint(context))

    def start(self, context: SinkContext) -> WriteAheadSink:
        """See the contract. Raises BadConfigurationError for a batch write, which has no checkpoint to keep rows in."""
        _checkpoint(context)
        return self

    @final
    @property
    def committable_serializer(self) -> JsonSerializer[Segment]:
        """See the contract."""
        return _SEGMENTS

    @final
    @property
    def state_serializer(self) -> JsonSerializer[None]:
        """See the contract: nothing is carried."""
        return NOTHING_SERIALIZER

    @final
    def create_writer(self, context: WriterContext) -> SinkWriter[Segment, None]:
        """See the contract."""
        return _StagingWriter(self, context)

    @final
    def create_committer(self, context: SinkContext) -> Committer[Segment, None]:
        """See the contract."""
        return _SendingCommitter(self, context)

    def describe_committable(self, committable: Segment) -> str:
        """See the contract."""
        return f"segment {committable.id} ({committable.rows} rows, {committable.size_bytes} bytes)"


def _checkpoint(context: SinkContext) -> CheckpointLocation:
    if context.checkpoint is None:
        raise BadConfigurationError(
            "this sink keeps rows in the query's checkpoint until they are sent: it works for streams "
            "(writeStream with checkpointLocation), not for a batch write"
        )
    return context.checkpoint


# 1. Tasks stage.


class Staged:
    """The staged segments of one query, as files ``<checkpoint>/penstock/staged/<segment id>.arrow``."""

    def __init__(self, checkpoint: CheckpointLocation) -> None:
        self._storage = checkpoint.storage
        self._directory = f"{checkpoint.path}/penstock/staged"

    def _path(self, segment_id: str) -> str:
        return f"{self._directory}/{segment_id}.arrow"

    def write(self, segment_id: str, batches: Sequence[pa.RecordBatch]) -> int:
        """Stores a segment; durable and whole on return. Returns its bytes."""
        stored = io.BytesIO()
        with pa.ipc.new_stream(stored, batches[0].schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
        data = stored.getvalue()
        self._storage.put(self._path(segment_id), data)
        return len(data)

    def exists(self, segment: Segment) -> bool:
        """Whether it is there."""
        return self._storage.size(self._path(segment.id)) is not None

    def read(self, segment: Segment) -> Iterator[pa.RecordBatch]:
        """The rows of a segment."""
        yield from pa.ipc.open_stream(self._storage.read(self._path(segment.id)))

    def remove(self, segments: Iterable[Segment]) -> None:
        """Missing ones are fine."""
        self._storage.delete(self._path(segment.id) for segment in segments)

    def remove_before(self, batch_id: int) -> int:
        """Removes every segment of earlier batches. Returns how many there were."""
        names = [name for name in self._storage.list_names(self._directory) if _batch_of(name) < batch_id]
        self._storage.delete(f"{self._directory}/{name}" for name in names)
        return len(names)


def _batch_of(name: str) -> int:
    return int(name.partition("-")[0])


class _StagingWriter(SinkWriter[Segment, None]):
    """Memory: one segment, twice while it is stored, and one Arrow batch."""

    def __init__(self, sink: WriteAheadSink, context: WriterContext) -> None:
        self._sink = sink
        self._staged = Staged(_checkpoint(context))
        self._context = context
        self._segment_bytes = sink.segment_bytes
        self._batches: list[pa.RecordBatch] = []
        self._size = 0
        self._segments: list[Segment] = []

    def write(self, batch: pa.RecordBatch) -> None:
        batch = self._sink.screen(batch, self._context) if batch.num_rows else batch
        if not batch.num_rows:
            return
        rows = max(1, batch.num_rows * self._segment_bytes // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, rows)
            if self._batches and self._size + part.nbytes > self._segment_bytes:
                self._store()
            self._batches.append(part)
            self._size += part.nbytes

    def _store(self) -> None:
        context = self._context
        rows = sum(batch.num_rows for batch in self._batches)
        segment = Segment(
            context.batch_id, context.writer_index, context.attempt_id, len(self._segments), rows, self._size
        )
        # Known before it is there, so that an abort removes it.
        self._segments.append(segment)
        stored_bytes = self._staged.write(segment.id, self._batches)
        context.metrics.add("bytes_staged", stored_bytes)
        self._batches, self._size = [], 0

    def prepare_commit(self) -> Prepared[Segment, None]:
        if self._batches:
            self._store()
        self._context.metrics.add("rows_written", sum(segment.rows for segment in self._segments))
        self._context.metrics.add("bytes_written", sum(segment.size_bytes for segment in self._segments))
        return Prepared(self._segments)

    def abort(self) -> None:
        try:
            self._staged.remove(self._segments)
        except OSError:
            return  # a clean-up finds them


# 2. The driver sends what was decided.


class _SendingCommitter(Committer[Segment, None]):
    """Memory: one segment, twice, for each sending thread."""

    def __init__(self, sink: WriteAheadSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._staged = Staged(_checkpoint(context))

    def commit(self, committables: Sequence[Segment]) -> list[CommitOutcome]:
        """Each writer's segments in order, several writers at a time.

        The first error stops the others behind the segment that they are sending, and is raised.
        """
        by_writer: dict[str, list[Segment]] = defaultdict(list)
        for segment in committables:
            by_writer[segment.attempt_id].append(segment)
        failed = Event()
        outcomes: dict[Segment, CommitOutcome] = {}
        with ThreadPoolExecutor(max(1, self._sink.parallel_senders), "penstock-sender") as pool:
            for done in [pool.submit(self._send_all, segments, failed) for segments in by_writer.values()]:
                outcomes.update(done.result())
        # What is recorded is not needed any more; what is left here by a crash is found by a clean-up.
        self._staged.remove(segment for segment in committables if outcomes[segment] is not CommitOutcome.LOST)
        return [outcomes[segment] for segment in committables]

    def _send_all(self, segments: Sequence[Segment], failed: Event) -> dict[Segment, CommitOutcome]:
        outcomes: dict[Segment, CommitOutcome] = {}
        recorder, sender = None, None
        try:
            recorder = self._sink.create_checkpoint_committer(self._context)
            for segment in segments:
                if failed.is_set():
                    break
                if recorder.is_recorded(segment):
                    outcomes[segment] = CommitOutcome.ALREADY_COMMITTED
                elif not self._staged.exists(segment):
                    outcomes[segment] = CommitOutcome.LOST
                else:
                    sender = sender or self._sink.create_sender(self._context)
                    sender.send(self._staged.read(segment), segment)
                    recorder.record(segment)
                    self._context.metrics.add("segments_sent")
                    outcomes[segment] = CommitOutcome.COMMITTED
        except BaseException:
            failed.set()
            raise
        finally:
            for opened in (sender, recorder):
                if opened is not None:
                    opened.close()
        return outcomes

    def abort(self, committables: Sequence[Segment], states: Sequence[Any]) -> None:
        self._staged.remove(committables)

    def clean_up(self, live_states: Sequence[Any], *, before_batch: int) -> int:
        recorder = self._sink.create_checkpoint_committer(self._context)
        try:
            recorder.forget(before_batch)
        finally:
            recorder.close()
        return self._staged.remove_before(before_batch)
