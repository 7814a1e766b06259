"""The source: ties discovery, enumeration, reading and decoding together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.printable import get_logger
from penstock.serialization import MALFORMED, SimpleVersionedSerializer, shortened
from penstock.source import EnumeratorContext, ReaderContext, ReadLimits, Source
from penstock.storage import open_storage
from penstock_filesystem.formats import InputFile, create_reader
from penstock_filesystem.options import SourceOptions
from penstock_filesystem.source._cleaner import FileCleaner
from penstock_filesystem.source._discovery import FileDiscovery, without_wildcards
from penstock_filesystem.source._emitter import FileSystemRecordEmitter
from penstock_filesystem.source._enumerator import FileSystemSplitEnumerator
from penstock_filesystem.source._metadata import METADATA_SCHEMA, data_schema, validate_metadata
from penstock_filesystem.source._reader import FileSystemSplitReader
from penstock_filesystem.source._split import (
    SPLIT_SERIALIZER,
    STATE_SERIALIZER,
    FileSplit,
    FileSystemEnumeratorState,
)
from penstock_filesystem.source.tracking import FileTracker

__all__ = ["FileSystemSource"]

_log = get_logger("penstock.filesystem")

_INFER_FILES = 100
#: What a reader raises for a file from which no schema can be taken.
_NOT_INFERRED = (pa.ArrowException, OSError, *MALFORMED)


class FileSystemSource(Source[FileSplit, FileSystemEnumeratorState]):
    """Reads files of one format from one file system. Raises BadConfigurationError for options that do not fit."""

    def __init__(self, options: SourceOptions) -> None:
        opened = [open_storage(path, options.storage_options) for path in options.paths]
        self._storage = opened[0][0]
        if any(type(other) is not type(self._storage) for other, _ in opened):
            raise BadConfigurationError("all paths of one source must be in the same file system")
        self._roots = [path for _, path in opened]
        self._options = options
        self._format_reader = create_reader(options.format)

    @property
    def split_serializer(self) -> SimpleVersionedSerializer[FileSplit]:
        """Stored form of splits."""
        return SPLIT_SERIALIZER

    @property
    def enumerator_serializer(self) -> SimpleVersionedSerializer[FileSystemEnumeratorState]:
        """Stored form of the enumerator's state."""
        return STATE_SERIALIZER

    def fixed_schema(self) -> pa.Schema | None:
        """Returns the schema of text and binary files, with the metadata columns if ``includeMetadata`` is set."""
        schema = self._format_reader.fixed_schema()
        return None if schema is None else self._with_metadata(schema)

    def infer_schema(self) -> pa.Schema:
        """Infers the schema of the oldest files that are not empty."""
        discovery = self._discovery()
        discovery.list_files()
        found = [file for file in discovery.take() if file.size > 0]
        if not found:
            paths = ", ".join(self._options.paths)
            raise BadConfigurationError(
                f"no file with anything in it was found in {paths}: give a schema with .schema(...)"
            )
        most = len(found) if self._options.format.merge_schema else _INFER_FILES
        every = (InputFile(self._storage, file.path, file.size) for file in found)
        usable = filter(self._can_be_inferred, every) if self._options.ignore_corrupt_files else every
        files = list(islice(usable, most))
        if not files:
            raise BadConfigurationError(f"no schema could be inferred: all {len(found)} files are corrupt")
        try:
            return self._with_metadata(self._format_reader.infer(files))
        except _NOT_INFERRED as error:
            raise BadConfigurationError(
                f"the schema of {files[0].url} could not be inferred: {shortened(str(error))}"
            ) from error

    def _can_be_inferred(self, file: InputFile) -> bool:
        try:
            self._format_reader.infer([file])
        except (*_NOT_INFERRED, BadConfigurationError) as error:
            _log.warning("%s is left out of the schema, as it can't be read: %s", file.url, error)
            return False
        return True

    def _with_metadata(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([*schema, *METADATA_SCHEMA]) if self._options.include_metadata else schema

    def validate_schema(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError for columns that the files and the metadata cannot fill."""
        validate_metadata(schema)
        corrupt = self._options.format.corrupt_column
        data = data_schema(schema)
        if self._options.format.name in ("csv", "json") and corrupt in data.names:
            if not pa.types.is_string(data.field(corrupt).type):
                raise BadConfigurationError(f"the column {corrupt} for bad rows must be a string")
            data = pa.schema([field for field in data if field.name != corrupt])
        self._format_reader.validate(data)

    def read_limits(self) -> ReadLimits:
        """Returns ``maxFilesPerTrigger``, which bounds what Spark stores, and ``maxBytesPerTrigger``."""
        return ReadLimits(max_groups=self._options.max_files, max_bytes=self._options.max_bytes)

    @property
    def open_cost_bytes(self) -> int:
        """Returns ``openCostInBytes``."""
        return self._options.open_cost_bytes

    def target_task_bytes(self, parallelism: int, total_bytes: int) -> int:
        """Follows Spark's rule: at most ``maxSplitBytes`` and at least ``openCostInBytes``."""
        per_slot = total_bytes // max(1, parallelism)
        return max(1, min(self._options.max_split_bytes, max(self._options.open_cost_bytes, per_slot)))

    def create_enumerator(
        self, context: EnumeratorContext, checkpoint: FileSystemEnumeratorState | None
    ) -> FileSystemSplitEnumerator:
        """Creates the enumerator, with the tracker of the files that were read."""
        options = self._options
        tracker = FileTracker.open(context, options.checkpoint_location, options.storage_options, checkpoint)
        return FileSystemSplitEnumerator(
            context,
            self._discovery(),
            options,
            self._format_reader.is_splittable,
            self._cleaner(context),
            tracker,
            checkpoint,
        )

    def list_splits(self, context: EnumeratorContext) -> Iterator[FileSplit]:
        """Yields everything that one listing finds, without the background."""
        enumerator = self.create_enumerator(context, None)
        try:
            enumerator.prepare_for_available_now()
            while (split := enumerator.handle_split_request()) is not None:
                yield split
        finally:
            enumerator.close()

    def create_reader(self, context: ReaderContext) -> FileSystemSplitReader:
        """Creates the reader of a task."""
        return FileSystemSplitReader(
            self._storage,
            self._format_reader,
            self._options,
            data_schema(context.schema),
            context.metrics,
            [without_wildcards(root) for root in self._roots],
        )

    def create_emitter(self, context: ReaderContext) -> FileSystemRecordEmitter:
        """Creates the emitter of a task."""
        return FileSystemRecordEmitter(self._storage, self._format_reader, context)

    def _discovery(self) -> FileDiscovery:
        return FileDiscovery(
            self._storage, self._roots, recursive=self._options.recursive, name_glob=self._options.path_glob_filter
        )

    def _cleaner(self, context: EnumeratorContext) -> FileCleaner | None:
        if self._options.clean_source == "off":
            return None
        archive = None
        if self._options.clean_source == "archive":
            storage, archive = open_storage(self._options.archive_dir or "", {})
            if type(storage) is not type(self._storage):
                raise BadConfigurationError("sourceArchiveDir must be in the file system that is read")
        return FileCleaner(self._storage, self._roots, archive, context.metrics)
