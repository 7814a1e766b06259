"""The source: ties discovery, enumeration, reading and decoding together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues
from penstock.serialization import SimpleVersionedSerializer
from penstock.source import EnumeratorContext, ReaderContext, ReadLimits, Source
from penstock.storage import Storage, open_storage
from penstock_filesystem.source.clean import FileCleaner
from penstock_filesystem.source.discovery import Discovery
from penstock_filesystem.source.emitter import FileEmitter
from penstock_filesystem.source.enumerator import FileSplitEnumerator
from penstock_filesystem.source.formats import create_format
from penstock_filesystem.source.memory import SourceMemory
from penstock_filesystem.source.metadata_columns import METADATA_SCHEMA, data_schema, validate_metadata
from penstock_filesystem.source.opened import OpenedFile
from penstock_filesystem.source.options import FileSourceSettings
from penstock_filesystem.source.reading import FileSplitReader
from penstock_filesystem.source.split import SPLIT_SERIALIZER, FileSplit
from penstock_filesystem.source.state import FileEnumeratorSerializer, FileEnumeratorState

__all__ = ["FileSource"]

_INFER_FILES = 100


class FileSource(Source[FileSplit, FileEnumeratorState]):
    """Reads files of one format from one file system. See the option declarations for what can be set."""

    def __init__(
        self,
        storage: Storage,
        roots: list[str],
        settings: FileSourceSettings,
        store_options: Mapping[str, str | None] | None = None,
    ) -> None:
        self._storage = storage
        self._store_options = store_options
        self._roots = roots
        self._settings = settings
        self._format = create_format(settings)

    @classmethod
    def from_options(cls, options: OptionValues) -> FileSource:
        """A source of validated options. Raises BadConfigurationError for values that do not go together."""
        settings = FileSourceSettings.from_values(options)
        store_options = options.with_prefix("s3.")
        opened = [open_storage(path, store_options) for path in settings.paths]
        storage = opened[0][0]
        if any(type(other) is not type(storage) for other, _ in opened):
            raise BadConfigurationError("all paths of one source must be in the same file system")
        return cls(storage, [path for _, path in opened], settings, store_options)

    @property
    def split_serializer(self) -> SimpleVersionedSerializer[FileSplit]:
        """See the base class."""
        return SPLIT_SERIALIZER

    @property
    def enumerator_serializer(self) -> SimpleVersionedSerializer[FileEnumeratorState]:
        """See the base class."""
        return FileEnumeratorSerializer()

    def fixed_schema(self) -> pa.Schema | None:
        """See the base class: text and binary, with the metadata columns if ``includeMetadata`` is set."""
        schema = self._format.fixed_schema()
        return None if schema is None else self._with_metadata(schema)

    def infer_schema(self) -> pa.Schema:
        """See the base class. Looks at the oldest files that are not empty."""
        discovery = self._discovery()
        discovery.look()
        found = [file for file in discovery.take() if file.size > 0]
        if not found:
            paths = ", ".join(self._settings.paths)
            raise BadConfigurationError(
                f"no file with anything in it was found in {paths}: give a schema with .schema(...)"
            )
        most = len(found) if self._settings.merge_schema else _INFER_FILES
        files = [OpenedFile(self._storage, file.path, file.size) for file in found[:most]]
        try:
            return self._with_metadata(self._format.infer(self._storage, files))
        except (pa.ArrowInvalid, OSError, ValueError) as error:
            raise BadConfigurationError(f"the schema of {files[0].url} could not be inferred: {error}") from error

    def _with_metadata(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([*schema, *METADATA_SCHEMA]) if self._settings.include_metadata else schema

    def validate_schema(self, schema: pa.Schema) -> None:
        """See the base class."""
        validate_metadata(schema)
        corrupt = self._settings.corrupt_column
        data = data_schema(schema)
        if self._settings.format in ("csv", "json") and corrupt in data.names:
            if not pa.types.is_string(data.field(corrupt).type):
                raise BadConfigurationError(f"the column {corrupt} for bad rows must be a string")
            data = pa.schema([field for field in data if field.name != corrupt])
        self._format.validate(data)

    def read_limits(self) -> ReadLimits:
        """See the base class: ``maxFilesPerTrigger`` (which bounds what Spark stores) and ``maxBytesPerTrigger``."""
        return ReadLimits(max_groups=self._settings.max_files, max_bytes=self._settings.max_bytes)

    def target_task_bytes(self, parallelism: int, total_bytes: int) -> int:
        """See the base class: Spark's rule, at most ``maxSplitBytes`` and at least ``openCostInBytes``."""
        per_slot = total_bytes // max(1, parallelism)
        return max(1, min(self._settings.max_split_bytes, max(self._settings.open_cost_bytes, per_slot)))

    def create_enumerator(
        self, context: EnumeratorContext, checkpoint: FileEnumeratorState | None
    ) -> FileSplitEnumerator:
        """See the base class."""
        memory = SourceMemory.open(context, self._settings.checkpoint_location, self._store_options, checkpoint)
        return FileSplitEnumerator(
            context,
            self._discovery(),
            self._settings,
            self._format.is_splittable,
            self._cleaner(context),
            memory,
            checkpoint,
        )

    def list_splits(self, context: EnumeratorContext) -> Iterator[FileSplit]:
        """See the base class. One look, without the background."""
        enumerator = self.create_enumerator(context, None)
        try:
            enumerator.prepare_for_available_now()
            while (split := enumerator.handle_split_request()) is not None:
                yield split
        finally:
            enumerator.close()

    def create_reader(self, context: ReaderContext) -> FileSplitReader:
        """See the base class."""
        return FileSplitReader(
            self._storage, self._format, self._settings, data_schema(context.schema), context.metrics
        )

    def create_emitter(self, context: ReaderContext) -> FileEmitter:
        """See the base class."""
        return FileEmitter(self._storage, self._format, self._settings, context)

    def _discovery(self) -> Discovery:
        return Discovery(
            self._storage, self._roots, recursive=self._settings.recursive, name_glob=self._settings.path_glob_filter
        )

    def _cleaner(self, context: EnumeratorContext) -> FileCleaner | None:
        if self._settings.clean_source == "off":
            return None
        archive = None
        if self._settings.clean_source == "archive":
            storage, archive = open_storage(self._settings.archive_dir or "", {})
            if type(storage) is not type(self._storage):
                raise BadConfigurationError("sourceArchiveDir must be in the file system that is read")
        return FileCleaner(self._storage, self._roots, archive, context.metrics)
