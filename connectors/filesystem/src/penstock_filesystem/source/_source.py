"""The source: ties discovery, enumeration, reading and decoding together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace

import pyarrow as pa

from penstock.dead_letters import LETTER_DDL, LETTER_TYPE, is_letter_type
from penstock.errors import BadConfigurationError, RetriableError
from penstock.printable import get_logger
from penstock.serialization import SimpleVersionedSerializer
from penstock.source import (
    ColumnFilter,
    EnumeratorContext,
    ReaderContext,
    ReadLimits,
    Source,
    SupportsFilterPushDown,
)
from penstock.storage import open_storage
from penstock_filesystem._error_codes import MISSING
from penstock_filesystem.formats import InputFile, create_reader
from penstock_filesystem.options import SourceOptions
from penstock_filesystem.source._absence import listing_error
from penstock_filesystem.source._cleaner import FileCleaner
from penstock_filesystem.source._columns import infer_columns
from penstock_filesystem.source._emitter import FileSystemRecordEmitter
from penstock_filesystem.source._enumerator import FileSystemSplitEnumerator
from penstock_filesystem.source._metadata import METADATA_SCHEMA, data_schema, validate_metadata
from penstock_filesystem.source._new_columns import NewColumns
from penstock_filesystem.source._partitions import PartitionColumns
from penstock_filesystem.source._reader import FileSystemSplitReader
from penstock_filesystem.source._schema_location import SchemaLocation, as_spark_has_it
from penstock_filesystem.source._split import (
    SPLIT_SERIALIZER,
    STATE_SERIALIZER,
    FileSplit,
    FileSystemEnumeratorState,
)
from penstock_filesystem.source.discovery import (
    FileDiscovery,
    FoundFile,
    ModifiedBetween,
    NotificationQueue,
    check_globs,
    queue_of,
    without_wildcards,
)
from penstock_filesystem.source.tracking import FileTracker

__all__ = ["FileSystemSource"]

_log = get_logger("penstock.filesystem")


class FileSystemSource(Source[FileSplit, FileSystemEnumeratorState], SupportsFilterPushDown):
    """Reads files of one format from one file system. Raises BadConfigurationError for options that do not fit."""

    def __init__(self, options: SourceOptions) -> None:
        opened = [open_storage(path, options.storage_options) for path in options.paths]
        self._storage = opened[0][0]
        if not all(self._storage.is_same_place(other) for other, _ in opened):
            raise BadConfigurationError("all paths of one source must be in the same file system")
        self._roots = [path for _, path in opened]
        check_globs(self._roots)
        self._options = options
        self._format_reader = create_reader(options.format)
        self._partitions = self._partition_columns() if options.with_partitions else None
        self._location = None
        if options.schema_location is not None:
            self._location = self._schema_location(options.schema_location)
        self._queue = queue_of(self._storage, options.notification_queue) if options.notification_queue else None
        self._filters: tuple[ColumnFilter, ...] = ()

    def _schema_location(self, given: str) -> SchemaLocation:
        storage, directory = open_storage(given, self._options.storage_options)
        for root in map(without_wildcards, self._roots):
            below = directory.removeprefix(f"{root.rstrip('/')}/")
            hidden = any(part.startswith((".", "_")) for part in below.split("/"))
            if self._storage.is_same_place(storage) and (directory == root or (below != directory and not hidden)):
                raise BadConfigurationError(
                    f"option 'schemaLocation': {given} is below the path that is read, so its files would be read as "
                    "well; choose another directory, or a name that begins with _"
                )
        return SchemaLocation(storage, directory)

    @property
    def split_serializer(self) -> SimpleVersionedSerializer[FileSplit]:
        """Stored form of splits."""
        return SPLIT_SERIALIZER

    @property
    def enumerator_serializer(self) -> SimpleVersionedSerializer[FileSystemEnumeratorState]:
        """Stored form of the enumerator's state."""
        return STATE_SERIALIZER

    def _partition_columns(self) -> PartitionColumns:
        base = self._options.base_path
        if base is not None:
            storage, base = open_storage(base, self._options.storage_options)
            base = base.rstrip("/")
            for root in self._roots:
                if not self._storage.is_same_place(storage) or not f"{root}/".startswith(f"{base}/"):
                    raise BadConfigurationError(f"option 'basePath': {self._storage.url(root)} is not in {base}")
        return PartitionColumns(self._roots, base, self._options.directory_times)

    def fixed_schema(self) -> pa.Schema | None:
        """Returns the schema of text and binary files, with the metadata columns if ``includeMetadata`` is set.

        ``None`` if directories hold columns, which have to be inferred, or given.
        """
        schema = self._format_reader.fixed_schema()
        if schema is None or (self._partitions is not None and self._partitions.infer(self._paths())):
            return None
        return self._with_metadata(pa.schema([*schema, *self._letter_fields]))

    @property
    def _letter_fields(self) -> list[pa.Field]:
        """The column for bad rows as dead letters, if it is wanted."""
        name = self._options.format.letter_column
        return [] if name is None else [pa.field(name, LETTER_TYPE)]

    def _paths(self) -> list[str]:
        return [file.path for file in self._listed().take()]

    def _listed(self) -> FileDiscovery:
        discovery = self._discovery()
        try:
            discovery.list_files()
        except (OSError, RetriableError) as error:
            raise listing_error(self._storage, self._options.paths, error) from error
        return discovery

    def _refuse_missing(self, roots: Sequence[str], ends: bool = True) -> None:
        raise BadConfigurationError(
            f"{self._storage.url(roots[0])} does not exist, or is a glob that matches nothing: correct the path, or "
            "create it",
            error_code=MISSING,
        )

    def _warn_of_missing(self, roots: Sequence[str], ends: bool) -> None:
        """A run that ends by itself would have nothing to wait for: it refuses them."""
        if ends:
            self._refuse_missing(roots)
        for root in roots:
            _log.warning(
                "%s does not exist, or matches nothing yet: the query waits for files there", self._storage.url(root)
            )

    @property
    def remembers_schema(self) -> bool:
        """Whether ``schemaLocation`` is set."""
        return self._location is not None

    def infer_schema(self) -> pa.Schema:
        """Infers the columns that the files hold, and those that directories hold; or returns what is remembered."""
        known = None if self._location is None else self._location.latest()
        if known is None:
            known = self._infer()
            if self._location is not None:
                known = self._location.begin(as_spark_has_it(known))
        rescued = [] if self._rescue_column is None else [pa.field(self._rescue_column, pa.string())]
        return self._with_metadata(pa.schema([*known, *rescued, *self._letter_fields]))

    def _infer(self) -> pa.Schema:
        discovery = self._listed()
        every = discovery.take()
        columns = [] if self._partitions is None else self._partitions.infer(file.path for file in every)
        return self._of_files(_with_columns(self._infer_data(every, discovery.missing_roots()), columns))

    @property
    def _rescue_column(self) -> str | None:
        return self._options.format.rescue_column

    def _of_files(self, schema: pa.Schema) -> pa.Schema:
        added = (self._rescue_column, self._options.format.letter_column)
        return pa.schema([field for field in schema if field.name not in added])

    def _infer_data(self, every: Sequence[FoundFile], missing: Sequence[str]) -> pa.Schema:
        """Returns the columns that are in the files."""
        fixed = self._format_reader.fixed_schema()
        if fixed is not None:
            return fixed
        found = [InputFile(self._storage, file.path, file.size) for file in every if file.size > 0]
        if not found:
            if missing:
                self._refuse_missing(missing)
            paths = ", ".join(self._options.paths)
            raise BadConfigurationError(
                f"no file with anything in it was found in {paths}: give a schema with .schema(...)"
            )
        return infer_columns(self._format_reader, found, skips_corrupt=self._options.ignore_corrupt_files)

    def _with_metadata(self, schema: pa.Schema) -> pa.Schema:
        if not self._options.include_metadata:
            return schema
        return pa.schema([*data_schema(schema), *METADATA_SCHEMA])

    def validate_schema(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError for columns that the files and the metadata cannot fill."""
        validate_metadata(schema)
        self._check_remembered(schema)
        self._check_rescue_column(schema)
        self._check_letter_column(schema)
        corrupt = self._options.format.corrupt_column
        data = data_schema(self._of_files(schema))
        if self._options.format.name in ("csv", "json") and corrupt in data.names:
            if not pa.types.is_string(data.field(corrupt).type):
                raise BadConfigurationError(f"the column {corrupt} for bad rows must be a string")
            data = pa.schema([field for field in data if field.name != corrupt])
        fixed = self._format_reader.fixed_schema()
        if fixed is not None and self._partitions is not None and set(data.names) - set(fixed.names):
            data = self._without_directories(data, fixed)
        self._format_reader.validate(data)

    def _check_rescue_column(self, schema: pa.Schema) -> None:
        name = self._rescue_column
        if name is None:
            return
        if name in METADATA_SCHEMA.names or name == (self._options.format.corrupt_column or None):
            raise BadConfigurationError(f"option 'rescuedDataColumn': {name} holds something else; choose another name")
        if name not in schema.names or not pa.types.is_string(schema.field(name).type):
            raise BadConfigurationError(
                f"option 'rescuedDataColumn': the schema needs a column for it: add '{name} string' to .schema(...)"
            )

    def _check_letter_column(self, schema: pa.Schema) -> None:
        name = self._options.format.letter_column
        if name is None:
            return
        if name in METADATA_SCHEMA.names or name == self._rescue_column:
            raise BadConfigurationError(f"option 'badRecordColumn': {name} holds something else; choose another name")
        if name not in schema.names or not is_letter_type(schema.field(name).type):
            raise BadConfigurationError(
                f"badRecords=deadLetter: the schema needs a column for bad rows: add '{name} {LETTER_DDL}' to "
                ".schema(...) (penstock.dead_letters.LETTER_DDL is the type)"
            )

    def _check_remembered(self, schema: pa.Schema) -> None:
        if self._location is None:
            return
        given = as_spark_has_it(data_schema(self._of_files(schema)))
        if not self._location.has_had(lambda known: data_schema(known) == given):
            raise BadConfigurationError(
                f"option 'schemaLocation': {self._location.url} remembers another schema than the one that is given: "
                "leave out .schema(...), or schemaLocation"
            )

    def _new_columns(self, context: ReaderContext) -> NewColumns | None:
        if self._location is None or not self._options.format.refuses_new_columns:
            return None
        every_row = create_reader(replace(self._options.format, sampling_ratio=1))
        return NewColumns(self._location, every_row, self._partitions, context.schema)

    def _without_directories(self, schema: pa.Schema, fixed: pa.Schema) -> pa.Schema:
        """Returns what files have to hold of ``schema``. Before there are files, directories may hold anything."""
        assert self._partitions is not None
        paths = self._paths()
        held = {field.name.lower() for field in self._partitions.infer(paths)}
        return pa.schema(
            [field for field in schema if field.name in fixed.names or (paths and field.name.lower() not in held)]
        )

    def push_filters(self, filters: Sequence[ColumnFilter]) -> tuple[FileSystemSource, Sequence[ColumnFilter]]:
        """Files are left out of which the directories say that no row meets a filter. The engine applies all filters:
        what a name means depends on the schema.
        """
        if self._partitions is None:
            return self, ()
        source = copy(self)
        source._filters = (*self._filters, *filters)
        return source, ()

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
        # Later, files that are gone may have been cleaned away.
        on_missing = self._warn_of_missing if checkpoint is None else _ignore
        if self._queue is not None:
            self._queue.check()
        return self._enumerator(context, checkpoint, on_missing, self._queue)

    def _enumerator(
        self,
        context: EnumeratorContext,
        checkpoint: FileSystemEnumeratorState | None,
        on_missing: Callable[[Sequence[str], bool], None],
        queue: NotificationQueue | None = None,
    ) -> FileSystemSplitEnumerator:
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
            on_missing,
            queue,
        )

    def list_splits(self, context: EnumeratorContext) -> Iterator[FileSplit]:
        """Yields everything that one listing finds and no filter leaves out, without the background.

        Raises BadConfigurationError if a path does not exist, or a glob matches nothing.
        """
        enumerator = self._enumerator(context, None, self._refuse_missing)
        left_out = 0
        try:
            enumerator.prepare_for_available_now()
            while (split := enumerator.handle_split_request()) is not None:
                if self._partitions is None or self._partitions.may_hold(split.path, self._filters):
                    yield split
                else:
                    left_out += split.start == 0
        finally:
            enumerator.close()
        if left_out:
            _log.info("%d files are left out by filters on columns of their directories", left_out)

    def create_reader(self, context: ReaderContext) -> FileSystemSplitReader:
        """Creates the reader of a task."""
        return FileSystemSplitReader(
            self._storage,
            self._format_reader,
            self._options,
            data_schema(context.schema),
            self._partitions,
            context.metrics,
            [without_wildcards(root) for root in self._roots],
            self._new_columns(context),
        )

    def create_emitter(self, context: ReaderContext) -> FileSystemRecordEmitter:
        """Creates the emitter of a task."""
        return FileSystemRecordEmitter(
            self._storage, self._format_reader, self._partitions, context, self._new_columns(context)
        )

    def _discovery(self) -> FileDiscovery:
        times = ModifiedBetween(self._options.modified_after_us, self._options.modified_before_us)
        return FileDiscovery(
            self._storage,
            self._roots,
            recursive=self._options.recursive,
            name_glob=self._options.path_glob_filter,
            modified=None if times == (None, None) else times,
        )

    def _cleaner(self, context: EnumeratorContext) -> FileCleaner | None:
        if self._options.clean_source == "off":
            return None
        archive = None
        if self._options.clean_source == "archive":
            storage, archive = open_storage(self._options.archive_dir or "", self._options.storage_options)
            if not self._storage.is_same_place(storage):
                raise BadConfigurationError("sourceArchiveDir must be in the file system that is read")
        return FileCleaner(self._storage, self._roots, archive, context.metrics)


def _ignore(_: Sequence[str], ends: bool) -> None:
    pass


def _with_columns(schema: pa.Schema, columns: Sequence[pa.Field]) -> pa.Schema:
    """Returns ``schema`` with the columns of directories behind it; one that files hold as well stays in its place."""
    by_name = {field.name.lower(): field for field in columns}
    fields = [by_name.pop(field.name.lower(), field) for field in schema]
    return pa.schema([*fields, *by_name.values()])
