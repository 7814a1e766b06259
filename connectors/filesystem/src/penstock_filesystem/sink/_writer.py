"""The writer of one attempt: an open part per bucket."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from penstock.metrics import Metrics
from penstock.sink import ChangeColumns, CommittingSinkWriter, PreparedCommit
from penstock_filesystem.formats import Encoder, FormatWriter
from penstock_filesystem.sink._buckets import BucketAssigner, split_by_bucket
from penstock_filesystem.sink._committable import Chunk, PendingPart
from penstock_filesystem.sink._rolling import PartFileInfo, RollingPolicy
from penstock_filesystem.sink.staging import StagedFile, Staging

__all__ = ["FileSystemWriter"]

#: Rows that encoders hold back, of all open buckets together, in bytes of Arrow memory.
BUFFER_BYTES = 256 << 20


@dataclass
class _OpenPart:
    bucket: str
    file: StagedFile
    encoder: Encoder
    created_ms: int
    last_write_ms: int
    rows: int = 0

    @property
    def info(self) -> PartFileInfo:
        return PartFileInfo(self.bucket, self.encoder.size, self.rows, self.created_ms, self.last_write_ms)


class FileSystemWriter(CommittingSinkWriter[PendingPart, Chunk]):
    """Writes rows to hidden files, one open part per bucket.

    A part that is full is left for the commit to publish; the others become chunks, which live on as state.
    Memory: 256 MiB of rows not yet encoded, and the batch at hand. Open files: ``maxOpenBuckets``.
    """

    def __init__(
        self,
        staging: Staging,
        format_writer: FormatWriter,
        assigner: BucketAssigner,
        policy: RollingPolicy,
        changes: ChangeColumns,
        *,
        salt: str,
        max_open: int,
        clock: Callable[[], int],
        metrics: Metrics,
    ) -> None:
        self._staging = staging
        self._format_writer = format_writer
        self._assigner = assigner
        self._policy = policy
        self._changes = changes
        self._salt = salt
        self._max_open = max_open
        self._clock = clock
        self._metrics = metrics
        self._open: OrderedDict[str, _OpenPart] = OrderedDict()  # least recently used first
        self._prepared: PreparedCommit[PendingPart, Chunk] = (
            PreparedCommit()
        )  # grows as parts get full, returned at the end

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows to the open parts of their buckets; publishes parts that are full."""
        if not batch.num_rows:
            return
        self._changes.check_rows(batch)
        now_ms = self._clock() // 1_000_000
        buckets = self._assigner.bucket_ids(batch, now_ms)
        columns = [batch.column(field.name) for field in self._format_writer.schema]
        content = pa.RecordBatch.from_arrays(columns, schema=self._format_writer.schema)
        for bucket, rows in split_by_bucket(content, buckets):
            part = self._part(bucket, now_ms)
            part.encoder.write(rows)
            part.rows += rows.num_rows
            part.last_write_ms = now_ms
            if self._is_full(part):
                self._publish(self._open.pop(bucket))
        self._limit_buffers()
        self._metrics.add("rows_written", batch.num_rows)

    def _part(self, bucket: str, now_ms: int) -> _OpenPart:
        part = self._open.get(bucket)
        if part is None:
            self._staging.layout.check_bucket(bucket)
            if len(self._open) >= self._max_open:
                self._set_aside(self._open.popitem(last=False)[1])
            file = self._staging.create()
            part = _OpenPart(bucket, file, self._format_writer.encoder(file, self._salt), now_ms, now_ms)
            self._open[bucket] = part
        self._open.move_to_end(bucket)
        return part

    def _is_full(self, part: _OpenPart) -> bool:
        if not self._policy.should_roll_on_event(part.info):
            return False
        if part.encoder.size_is_guess:
            part.encoder.flush()
            return self._policy.should_roll_on_event(part.info)
        return True

    def _limit_buffers(self) -> None:
        buffered = sum(part.encoder.buffered_bytes for part in self._open.values())
        while buffered > BUFFER_BYTES:
            largest = max(self._open.values(), key=lambda part: part.encoder.buffered_bytes)
            buffered -= largest.encoder.buffered_bytes
            largest.encoder.flush()

    def _publish(self, part: _OpenPart) -> None:
        part.encoder.finish()
        final = self._staging.names.final(part.bucket, self._format_writer.extension)
        self._prepared.committables.append(self._staging.part(part.file, final, part.rows))
        self._metrics.add("bytes_written", part.file.size)

    def _set_aside(self, part: _OpenPart) -> None:
        if not self._format_writer.appends:
            self._publish(part)
            return
        part.encoder.finish()
        chunk = Chunk(
            bucket=part.bucket,
            path=self._staging.chunk(part.file),
            size=part.file.size,
            rows=part.rows,
            format=self._format_writer.name,
            extension=self._format_writer.extension,
            fingerprint=self._format_writer.fingerprint,
            header=part.encoder.header_size,
            created_ms=part.created_ms,
            last_write_ms=part.last_write_ms,
        )
        self._prepared.states.append(chunk)
        self._metrics.add("bytes_written", part.file.size)

    def prepare_commit(self) -> PreparedCommit[PendingPart, Chunk]:
        """Closes every open part: each is published or becomes a chunk. Everything is durable on return."""
        while self._open:
            part = self._open.popitem(last=False)[1]
            if self._policy.should_roll_on_checkpoint(part.info):
                self._publish(part)
            else:
                self._set_aside(part)
        self._staging.sync()
        self._prepared.sequences_used = self._staging.names.used
        return self._prepared

    def abort(self) -> None:
        """Removes what this attempt made."""
        self._staging.abort()
