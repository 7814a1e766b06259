"""The write-ahead template: rows are kept in files of the query's own until their batch is decided, then sent.

For systems without transactions whose writes can't be repeated either. Tasks stage their rows as Arrow files next to
the decision log, in segments of bounded size. The driver decides the batch (see :mod:`penstock._commit`), then sends
segment by segment, several writers' at a time and each writer's in order, and records each once it was sent. After a
crash it continues after the last one recorded.

**The window for duplicates**: a crash after a segment was sent, or a part of it, and before it was recorded. It is then
sent again: at most one segment for each writer that was sending. The same holds for a run that another one displaces:
it finds out before the next segment. Only the owner of the decision log sends anything, so there is no other
window. There is none at all where sending and recording are one transaction of the target system, in which the sender
asks who the owner is (see :meth:`Sender.send`), and it does no harm where the target replaces rows by key. A batch is
never sent before it was decided, so rows that come out otherwise in a replay are not a problem.

After Flink's GenericWriteAheadSink, with its CheckpointCommitter; unlike there a batch is recorded in segments, and
files and records are removed together, once the decision log has gone on.
"""

from __future__ import annotations

import contextlib
import io
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, final

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError, DataLostError, RetriableError
from penstock.serialization import MALFORMED, JsonSerializer
from penstock.sink._contracts import (
    CheckpointLocation,
    Committer,
    CommittingSinkWriter,
    Found,
    Kept,
    PreparedCommit,
    SinkContext,
    TwoPhaseCommitSink,
    WriterContext,
)
from penstock.storage import path_below
from penstock.system import system

__all__ = ["CheckpointCommitter", "FileCheckpointCommitter", "Segment", "Sender", "WriteAheadSink", "base_of"]


@dataclass(frozen=True)
class Segment:
    """Some rows of one writer, staged. ``number`` counts the segments of one attempt from 0; they are sent in order.

    ``base`` is the link of the decision log that the batch was planned on (-1 for what the first edition has staged).
    """

    batch_id: int
    writer_index: int
    attempt_id: str
    number: int
    rows: int
    size_bytes: int
    base: int = -1

    @property
    def id(self) -> str:
        """Unique in the world: the base, the batch, the writer, the attempt and the number, with ``-`` between."""
        first = "" if self.base < 0 else f"{self.base}-"
        return f"{first}{self.batch_id}-{self.writer_index}-{self.attempt_id}-{self.number}"


_SEGMENTS: JsonSerializer[Segment] = JsonSerializer(
    1, lambda segment: dict(vars(segment)), lambda version, fields: Segment(**fields)
)


def base_of(segment_id: str) -> int:
    """Returns the base in a segment's id; -1 if it is none, or of the first edition."""
    parts = segment_id.split("-")
    return int(parts[0]) if len(parts) == 5 and parts[0].isdigit() else -1


class Sender(ABC):
    """Sends rows to the target system. Driver; one for each thread that sends, used by that thread alone."""

    @abstractmethod
    def send(self, batches: Iterator[pa.RecordBatch], segment: Segment) -> None:
        """Sends the rows of one segment, in order; they are durable on return.

        May record ``segment`` itself, in one transaction with its rows: its checkpoint committer must then find it
        recorded, and recording it once more must change nothing. Within that transaction it calls the ``check_owner``
        of its context: a run that slept, and was displaced, may otherwise send what its successor has sent and
        forgotten. Raises :class:`penstock.errors.RetriableError` for a
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
        """Returns whether :meth:`record` was called for ``segment``, by whatever process."""

    @abstractmethod
    def record(self, segment: Segment) -> None:
        """Notes that ``segment`` was sent. Durable on return. Idempotent."""

    @abstractmethod
    def forget(self, before_base: int, kept: Collection[str]) -> None:
        """Removes the records of segments whose base is below ``before_base``, except for the ids in ``kept``.

        They are not needed any more.
        """

    def close(self) -> None:  # noqa: B027
        """Frees resources. Called once, also after an error."""


class FileCheckpointCommitter(CheckpointCommitter):
    """Keeps a note for each segment next to the decision log: for targets that can't keep any themselves."""

    def __init__(self, checkpoint: CheckpointLocation) -> None:
        self._storage = checkpoint.storage
        self._directory = f"{checkpoint.path}/penstock/sent"

    def is_recorded(self, segment: Segment) -> bool:
        return self._storage.size(path_below(self._directory, segment.id)) is not None

    def record(self, segment: Segment) -> None:
        self._storage.put(path_below(self._directory, segment.id), b"sent")

    def forget(self, before_base: int, kept: Collection[str]) -> None:
        self._storage.sweep(self._directory)
        names = self._storage.list_names(self._directory)
        self._storage.delete(f"{self._directory}/{name}" for name in names if _is_old(name, before_base, kept))


class WriteAheadSink(TwoPhaseCommitSink[Segment, None]):
    """At least once with a small window, see the module. Built on the driver, pickled to the tasks."""

    #: How large a segment grows, and so how much memory a task and each sending thread takes: twice that and a batch.
    segment_bytes: int = 8 << 20
    #: How many writers' segments are sent at the same time.
    parallel_senders: int = 4

    @abstractmethod
    def create_sender(self, context: SinkContext) -> Sender:
        """Returns a sender, for one thread. Driver."""

    def drop_invalid(self, batch: pa.RecordBatch, context: WriterContext) -> pa.RecordBatch:
        """``batch`` without rows that can't be sent, which were refused (:meth:`WriterContext.refuse`).

        Task, before rows are staged. By default all rows are kept. A row that the target will never take must be found
        here: once its batch is decided it blocks all later ones, and can't become a dead letter any more. Raises
        :class:`penstock.errors.BadDataError`.
        """
        return batch

    def create_checkpoint_committer(self, context: SinkContext) -> CheckpointCommitter:
        """Returns what remembers what was sent, for one thread. Driver. By default files next to the decision log."""
        return FileCheckpointCommitter(_checkpoint(context))

    def start(self, context: SinkContext) -> WriteAheadSink:
        """Raises BadConfigurationError for a batch write, which has no checkpoint to keep rows in."""
        _checkpoint(context)
        return self

    @final
    @property
    def committable_serializer(self) -> JsonSerializer[Segment]:
        return _SEGMENTS

    @final
    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[Segment, None]:
        return _StagingWriter(self, context)

    @final
    def create_committer(self, context: SinkContext) -> Committer[Segment, None]:
        return _SendingCommitter(self, context)

    def describe_committable(self, committable: Segment) -> str:
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
        return path_below(self._directory, f"{segment_id}.arrow")

    def write(self, segment_id: str, batches: Sequence[pa.RecordBatch]) -> int:
        """Stores a segment; durable and whole on return. Returns its bytes."""
        stored = io.BytesIO()
        with pa.ipc.new_stream(stored, batches[0].schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
        data = stored.getvalue()
        self._storage.put(self._path(segment_id), data)
        return len(data)

    def names(self) -> set[str]:
        """Returns the ids of all that are there."""
        return {name.removesuffix(".arrow") for name in self._storage.list_names(self._directory)}

    def read(self, segment: Segment) -> Iterator[pa.RecordBatch]:
        """Returns the rows of a segment. Raises DataLostError, at once, and BadDataError for rows that are damaged."""
        try:
            stored = self._storage.read(self._path(segment.id))
        except FileNotFoundError:
            raise DataLostError(f"{self._path(segment.id)}, staged and decided, is gone: restore it") from None
        return self._batches(segment.id, stored)

    def _batches(self, segment_id: str, stored: bytes) -> Iterator[pa.RecordBatch]:
        """Validates each batch: Arrow does not by itself, and would read beyond its buffers later on."""
        try:
            for batch in pa.ipc.open_stream(stored):
                batch.validate(full=True)
                yield batch
        except (OSError, pa.ArrowException, *MALFORMED) as error:
            path = self._storage.url(self._path(segment_id))
            raise BadDataError(f"{path}, staged and decided, is damaged ({error}): put it back from a copy") from error

    def remove(self, segment_ids: Iterable[str]) -> None:
        """Missing ones are fine."""
        self._storage.delete(self._path(segment_id) for segment_id in segment_ids)

    def clear(self, before_base: int, kept: Collection[str]) -> int:
        """Removes segments of earlier bases, except for the ids in ``kept``. Returns how many there were."""
        self._storage.sweep(self._directory)
        old = [name for name in self.names() if _is_old(name, before_base, kept)]
        self.remove(old)
        return len(old)


def _is_old(segment_id: str, before_base: int, kept: Collection[str]) -> bool:
    return base_of(segment_id) < before_base and segment_id not in kept


class _StagingWriter(CommittingSinkWriter[Segment, None]):
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
        batch = self._sink.drop_invalid(batch, self._context) if batch.num_rows else batch
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
            context.batch_id,
            context.writer_index,
            context.attempt_id,
            len(self._segments),
            rows,
            self._size,
            context.base,
        )
        # Known before it is there, so that an abort removes it.
        self._segments.append(segment)
        stored_bytes = self._staged.write(segment.id, self._batches)
        context.metrics.add("bytes_staged", stored_bytes)
        self._batches, self._size = [], 0

    def prepare_commit(self) -> PreparedCommit[Segment, None]:
        if self._batches:
            self._store()
        self._context.metrics.add("rows_written", sum(segment.rows for segment in self._segments))
        self._context.metrics.add("bytes_written", sum(segment.size_bytes for segment in self._segments))
        return PreparedCommit(self._segments)

    def abort(self) -> None:
        try:
            self._staged.remove(segment.id for segment in self._segments)
        except (OSError, RetriableError):
            return  # it is garbage as soon as the decision log moves on


# 2. The driver sends what was decided.


class _SendingCommitter(Committer[Segment, None]):
    """Memory: one segment, twice, for each sending thread."""

    first_decides = False  # the sender asks before each segment whether it is still the owner

    def __init__(self, sink: WriteAheadSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._staged = Staged(_checkpoint(context))

    def look(self, committables: Sequence[Segment]) -> list[Found]:
        """The files first: what another process has sent meanwhile is recorded before they go."""
        there = self._staged.names() if committables else set()
        with self._recorder() as recorder:
            return [
                Found.COMMITTED if recorder.is_recorded(one) else Found.OPEN if one.id in there else Found.LOST
                for one in committables
            ]

    def publish(self, committables: Sequence[Segment]) -> list[Found]:
        """Sends each writer's segments in order, several writers at a time.

        The first error stops the others after the segment that they are sending, and is raised.
        """
        by_writer: dict[str, list[Segment]] = defaultdict(list)
        for segment in committables:
            by_writer[segment.attempt_id].append(segment)
        failed = Event()
        with system().executor(self._sink.parallel_senders, "penstock-sender") as pool:
            sending = [pool.submit(self._send_all, segments, failed) for segments in by_writer.values()]
            for one in sending:
                one.result()
        return [Found.COMMITTED for _ in committables]

    def _send_all(self, segments: Sequence[Segment], failed: Event) -> None:
        sender = None
        try:
            with self._recorder() as recorder:
                for segment in segments:
                    if failed.is_set():
                        return
                    # Sending can't be repeated: only the owner sends, and checks each time that it still is the owner.
                    self._context.check_owner()
                    sender = sender or self._sink.create_sender(self._context)
                    sender.send(self._read(segment), segment)
                    recorder.record(segment)
                    self._context.metrics.add("segments_sent")
        except BaseException:
            failed.set()
            raise
        finally:
            if sender is not None:
                sender.close()

    def _read(self, segment: Segment) -> Iterator[pa.RecordBatch]:
        try:
            return self._staged.read(segment)
        except DataLostError:
            self._context.check_owner()  # another run may have sent it, and gone on
            raise

    def _recorder(self) -> contextlib.closing[CheckpointCommitter]:
        return contextlib.closing(self._sink.create_checkpoint_committer(self._context))

    def seal(self, committables: Sequence[Segment]) -> None:
        """Removes segments; one that a displaced run is sending at this moment is the known window."""
        self._staged.remove(segment.id for segment in committables)

    def discard(self, committables: Sequence[Segment], states: Sequence[Any]) -> None:
        self._staged.remove(segment.id for segment in committables)

    def clear(self, kept: Kept[Segment, None]) -> int:
        named = {segment.id for segment in kept.committables}
        with self._recorder() as recorder:
            recorder.forget(kept.base, named)
        return self._staged.clear(kept.base, named)
