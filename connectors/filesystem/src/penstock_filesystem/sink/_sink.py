"""The file sink: options in, writer, roller and committer out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues
from penstock.serialization import SimpleVersionedSerializer
from penstock.sink import CheckpointLocation, SinkContext, SupportsStateRolling, TwoPhaseCommitSink, WriterContext
from penstock.storage import S3Storage, open_storage
from penstock_filesystem.sink._bucket_assigner import BucketAssigner
from penstock_filesystem.sink._buckets import bucket_assigner
from penstock_filesystem.sink._committer import FileCommitter
from penstock_filesystem.sink._format import Format
from penstock_filesystem.sink._formats import create_format
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink._multipart_committer import MultipartCommitter
from penstock_filesystem.sink._multipart_staging import MultipartStaging
from penstock_filesystem.sink._rename_committer import RenameCommitter
from penstock_filesystem.sink._rename_staging import RenameStaging
from penstock_filesystem.sink._roller import FileRoller
from penstock_filesystem.sink._rolling import RollingPolicy, rolling_policy
from penstock_filesystem.sink._staging import Staging
from penstock_filesystem.sink._state import CHUNK_SERIALIZER, PART_SERIALIZER, Chunk, PendingPart, describe_chunk
from penstock_filesystem.sink._writer import FileWriter

__all__ = ["FileSink"]

_MAX_S3_PART_SIZE = 4 << 30  # a chunk is put, and copied, in one request: 5 GiB at most, and a part may overshoot


class FileSink(TwoPhaseCommitSink[PendingPart, Chunk], SupportsStateRolling[PendingPart, Chunk]):
    """Part files in buckets, exactly once. ``clock`` gives nanoseconds since the epoch; tests replace it."""

    clock: Callable[[], int] = staticmethod(time.time_ns)

    def __init__(
        self,
        layout: Layout,
        schema: pa.Schema,
        format_: Format,
        assigner: BucketAssigner,
        policy: RollingPolicy,
        *,
        max_open_buckets: int,
        max_open_chunks: int,
    ) -> None:
        self._layout = layout
        self._schema = schema
        self._format = format_
        self._assigner = assigner
        self._policy = policy
        self._max_open_buckets = max_open_buckets
        self._max_open_chunks = max_open_chunks

    @classmethod
    def from_options(cls, options: OptionValues, schema: pa.Schema) -> FileSink:
        """The sink for rows of ``schema``. Raises BadConfigurationError for options that don't go together."""
        storage, root = open_storage(options["path"], options.with_prefix("s3."))
        prefix, suffix = options["partPrefix"], options["partSuffix"]
        if "/" in prefix + suffix or prefix[:1] in ("", ".", "_"):
            raise BadConfigurationError(
                "options 'partPrefix' and 'partSuffix' hold no '/', and the prefix does not begin with '.' or '_' "
                "(readers skip such files)"
            )
        if isinstance(storage, S3Storage) and options["maxPartSize"] > _MAX_S3_PART_SIZE:
            raise BadConfigurationError("option 'maxPartSize': on S3 4gb at most")
        assigner = bucket_assigner(options)
        kept = pa.schema([field for field in schema if field.name not in assigner.columns_left_out()])
        return cls(
            Layout(storage, root, prefix, suffix),
            schema,
            create_format(kept, options),
            assigner,
            rolling_policy(options),
            max_open_buckets=options["maxOpenBuckets"],
            max_open_chunks=options["maxOpenChunks"],
        )

    @property
    def committable_serializer(self) -> SimpleVersionedSerializer[PendingPart]:
        """See the base class."""
        return PART_SERIALIZER

    @property
    def state_serializer(self) -> SimpleVersionedSerializer[Chunk]:
        """See the base class."""
        return CHUNK_SERIALIZER

    def validate_schema(self, schema: pa.Schema) -> None:
        """See the base class."""
        duplicates = {name for name in schema.names if schema.names.count(name) > 1}
        if duplicates:
            raise BadConfigurationError(f"two columns are named '{min(duplicates)}': rename one")
        self._assigner.validate(schema)
        self._format.validate()

    def create_writer(self, context: WriterContext) -> FileWriter:
        """See the base class."""
        return FileWriter(
            self._staging(context, "writer"),
            self._format,
            self._assigner,
            self._policy,
            salt=context.query_id,
            max_open=self._max_open_buckets,
            clock=self.clock,
            metrics=context.metrics,
        )

    def create_roller(self, context: WriterContext) -> FileRoller:
        """See the base class."""
        return FileRoller(
            self._staging(context, "roller"),
            self._format,
            self._policy,
            max_chunks=self._max_open_chunks,
            clock=self.clock,
            metrics=context.metrics,
        )

    def _staging(self, context: WriterContext, role: Literal["writer", "roller"]) -> Staging:
        is_s3 = isinstance(self._layout.storage, S3Storage)
        return (MultipartStaging if is_s3 else RenameStaging)(self._layout, context, role)

    def create_committer(self, context: SinkContext) -> FileCommitter:
        """See the base class."""
        is_s3 = isinstance(self._layout.storage, S3Storage)
        return (MultipartCommitter if is_s3 else RenameCommitter)(self._layout, context.query_id, context.metrics)

    @property
    def target(self) -> str:
        """See the contract."""
        return self._layout.storage.url(self._layout.root)

    def batch_log(self, query_id: str) -> CheckpointLocation:
        """See the contract."""
        layout = self._layout
        return CheckpointLocation(layout.storage, layout.full(layout.query_directory(query_id)))

    def owner_key(self, state: Chunk) -> str:
        """The bucket: chunks of one bucket are merged by one task."""
        return state.bucket

    def describe_state(self, state: Chunk) -> str:
        """See the base class."""
        return describe_chunk(state)

    def describe_committable(self, committable: PendingPart) -> str:
        """See the base class."""
        return committable.describe()
