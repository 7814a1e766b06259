"""The sink: options in, writer, roller and committer out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import names_object
from penstock.per_process import PerProcess
from penstock.serialization import SimpleVersionedSerializer
from penstock.sink import CheckpointLocation, SinkContext, SupportsStateRolling, TwoPhaseCommitSink, WriterContext
from penstock.storage import AzureStorage, GcsStorage, S3Storage, missing_package, open_storage
from penstock_filesystem.formats import create_writer
from penstock_filesystem.options import SinkOptions
from penstock_filesystem.sink._buckets import create_bucket_assigner
from penstock_filesystem.sink._committable import (
    COMMITTABLE_SERIALIZER,
    WRITER_STATE_SERIALIZER,
    Chunk,
    PendingPart,
    describe_chunk,
)
from penstock_filesystem.sink._committer import FileSystemCommitter
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink._rolling import FileSystemRoller, OnCheckpointRollingPolicy, create_rolling_policy
from penstock_filesystem.sink._writer import FileSystemWriter
from penstock_filesystem.sink.staging import (
    BlockCommitter,
    BlockStaging,
    MoveCommitter,
    MoveStaging,
    MultipartCommitter,
    MultipartStaging,
    RenameCommitter,
    RenameStaging,
    Staging,
)

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FileSystemTransactionalSink", "check_sink", "create_sink"]

_MAX_S3_PART_SIZE = 4 << 30  # a chunk is put, and copied, in one request: 5 GiB at most, and a part may overshoot


class FileSystemTransactionalSink(TwoPhaseCommitSink[PendingPart, Chunk], SupportsStateRolling[PendingPart, Chunk]):
    """Writes part files in buckets, exactly once. ``clock`` gives nanoseconds since the epoch; tests replace it."""

    clock: Callable[[], int] = staticmethod(time.time_ns)

    def __init__(self, options: SinkOptions, schema: pa.Schema) -> None:
        storage, root = open_storage(options.path, options.storage_options)
        if isinstance(storage, S3Storage) and options.max_part_size > _MAX_S3_PART_SIZE:
            raise BadConfigurationError("option 'maxPartSize': on S3 4gb at most")
        self._layout = Layout(storage, root, options.part_prefix, options.part_suffix)
        self._assigner = create_bucket_assigner(options)
        left_out = self._assigner.columns_left_out()
        content = pa.schema([field for field in schema if field.name not in left_out])
        self._format_writer = create_writer(content, options.format)
        self._policy = create_rolling_policy(options)
        if not self._format_writer.appends and not isinstance(self._policy, OnCheckpointRollingPolicy):
            raise BadConfigurationError(
                f"format {options.format.name}: a file of it can't continue in the next batch: set rollOnCheckpoint to "
                "true, so that each batch publishes its files"
            )
        self._changes = options.changes
        self._max_open_buckets = options.max_open_buckets
        self._max_open_chunks = options.max_open_chunks

    @property
    def committable_serializer(self) -> SimpleVersionedSerializer[PendingPart]:
        """Stored form of parts to publish."""
        return COMMITTABLE_SERIALIZER

    @property
    def state_serializer(self) -> SimpleVersionedSerializer[Chunk]:
        """Stored form of open chunks."""
        return WRITER_STATE_SERIALIZER

    def validate_schema(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError for columns that buckets or files can't take."""
        duplicates = {name for name in schema.names if schema.names.count(name) > 1}
        if duplicates:
            raise BadConfigurationError(f"two columns are named '{min(duplicates)}': rename one")
        self._changes.check_schema(schema)
        self._assigner.validate(schema)
        self._format_writer.validate()

    def start(self, context: SinkContext) -> Self:
        """Tries whether Google's store, or what stands for it, moves files as commits need it, once in a process."""
        storage = self._layout.storage
        if isinstance(storage, GcsStorage):
            directory = self._layout.full(f"{self._layout.query_directory(context.query_id)}/0")
            bucket = storage.url(directory.partition("/")[0])
            _moving.get(_Moving(repr(storage), bucket, storage.retrying(context.retry), directory))
        return self

    def create_writer(self, context: WriterContext) -> FileSystemWriter:
        """Creates the writer of one attempt."""
        return FileSystemWriter(
            self._staging(context, "writer"),
            self._format_writer,
            self._assigner,
            self._policy,
            self._changes,
            salt=context.query_id,
            max_open=self._max_open_buckets,
            clock=self.clock,
            metrics=context.metrics,
        )

    def create_roller(self, context: WriterContext) -> FileSystemRoller:
        """Creates the roller of one attempt."""
        return FileSystemRoller(
            self._staging(context, "roller"),
            self._format_writer,
            self._policy,
            max_chunks=self._max_open_chunks,
            clock=self.clock,
            metrics=context.metrics,
        )

    def _staging(self, context: WriterContext, role: Literal["writer", "roller"]) -> Staging:
        return _ways(self._layout)[0](self._layout, context, role)

    def create_committer(self, context: SinkContext) -> FileSystemCommitter:
        """Creates the committer of the store that is written to."""
        return _ways(self._layout)[1](self._layout, context.query_id, context.metrics)

    @property
    def target(self) -> str:
        """The address of the directory."""
        return self._layout.storage.url(self._layout.root)

    def batch_log(self, query_id: str) -> CheckpointLocation:
        """Returns where a batch write keeps its decision: the query's hidden directory."""
        layout = self._layout
        return CheckpointLocation(layout.storage, layout.full(layout.query_directory(query_id)))

    def owner_key(self, state: Chunk) -> str:
        """Returns the bucket: chunks of one bucket are merged by one task."""
        return state.bucket

    def describe_state(self, state: Chunk) -> str:
        """Describes a chunk in words."""
        return describe_chunk(state)

    def describe_committable(self, committable: PendingPart) -> str:
        """Describes a part in words."""
        return committable.describe()


@dataclass(frozen=True)
class _Moving:
    """A question to a store: does it move files? Any directory of the bucket gives the same answer."""

    store: str
    bucket: str
    storage: GcsStorage = field(compare=False)
    directory: str = field(compare=False)


def _try_moves(question: _Moving) -> bool:
    question.storage.check_moves(question.directory)
    return True


_moving = PerProcess(_try_moves)


def _ways(layout: Layout) -> tuple[type[Staging], type[FileSystemCommitter]]:
    """Returns how files are hidden and published in the storage of ``layout``."""
    if isinstance(layout.storage, S3Storage):
        return MultipartStaging, MultipartCommitter
    if isinstance(layout.storage, AzureStorage):
        return BlockStaging, BlockCommitter
    if isinstance(layout.storage, GcsStorage):
        return MoveStaging, MoveCommitter
    return RenameStaging, RenameCommitter


def check_sink(options: SinkOptions, schema: pa.Schema | None) -> type[FileSystemTransactionalSink]:
    """Returns the class of the sink. Raises BadConfigurationError as far as that can be known without connecting."""
    is_own = any(names_object(name) for name in (options.bucket_assigner, options.rolling_policy, options.format.name))
    if not is_own and missing_package(options.path) is None:
        sink = FileSystemTransactionalSink(options, pa.schema([]) if schema is None else schema)
        if schema is not None:
            sink.validate_schema(schema)
    return FileSystemTransactionalSink


def create_sink(options: SinkOptions, schema: pa.Schema) -> FileSystemTransactionalSink:
    """Creates the sink for rows of ``schema``. Raises BadConfigurationError for options that don't go together."""
    return FileSystemTransactionalSink(options, schema)
