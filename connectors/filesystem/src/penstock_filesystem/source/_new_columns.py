"""Files that have columns which the remembered schema lacks."""

from __future__ import annotations

from collections.abc import Iterable
from lzma import LZMAError
from typing import NoReturn

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError, RetriableError
from penstock.serialization import MALFORMED
from penstock_filesystem.formats import FormatReader, InputFile, merge_schemas
from penstock_filesystem.source._metadata import METADATA_SCHEMA
from penstock_filesystem.source._partitions import PartitionColumns
from penstock_filesystem.source._schema_location import SchemaLocation, as_spark_has_it

__all__ = ["NewColumns"]

_DAMAGED = (pa.ArrowException, LZMAError, *MALFORMED)


class NewColumns:
    """Finds them in a task, has them remembered, and ends the task. ``schema`` is that of the read.

    Directories, and files that hold their schema, are looked at before they are read; of JSON, rows as they are
    decoded. The split reader and the emitter, which are in different threads, have one each.
    """

    def __init__(
        self,
        location: SchemaLocation,
        format_reader: FormatReader,
        partitions: PartitionColumns | None,
        schema: pa.Schema,
    ) -> None:
        self._location = location
        self._format_reader = format_reader
        self._partitions = partitions
        options = format_reader.options
        added = {*METADATA_SCHEMA.names, options.rescue_column, options.letter_column}
        self._schema = pa.schema([field for field in schema if field.name not in added])
        self._checked = ""

    def check(self, file: InputFile) -> None:
        """Looks at what a file and its directories say of their columns.

        Raises as :meth:`refuse`, and as reading the file does.
        """
        if self._checked == file.path:
            return
        found = self._of_directories(file)
        if self._format_reader.holds_schema:
            found += self._of_file(file)
        new = [field.name for field in self._merged(pa.schema(found), file) if field not in list(self._schema)]
        if new:
            self._remember(pa.schema(found), file, new)
        self._checked = file.path

    def refuse(self, file: InputFile, names: Iterable[str]) -> NoReturn:
        """Has the columns of a file remembered. Raises BadDataError, which names those that are new.

        Raises RetriableError if the file can't be read again, or the directory can't be written.
        """
        self._remember(pa.schema(self._of_file(file)), file, names)

    def _of_directories(self, file: InputFile) -> list[pa.Field]:
        if self._partitions is None:
            return []
        known = {field.name.lower() for field in self._schema}
        return [field for field in self._partitions.infer([file.path]) if field.name.lower() not in known]

    def _of_file(self, file: InputFile) -> list[pa.Field]:
        inference = self._format_reader.inference(lambda _: None)
        try:
            inference.add(file)
        except OSError as error:
            if error.errno is not None:
                raise RetriableError(f"{file.url} could not be read for its columns: {error}") from error
            if self._format_reader.holds_schema:
                raise
        except _DAMAGED:
            # The rows before the damage count. That there is some, the read says.
            if self._format_reader.holds_schema:
                raise
        elsewhere = {name.lower() for name in METADATA_SCHEMA.names}
        if self._format_reader.options.rescue_column is not None:
            elsewhere.add(self._format_reader.options.rescue_column.lower())
        if self._partitions is not None:
            elsewhere |= {name.lower() for name in self._partitions.texts(file.path)}
        try:
            return [field for field in as_spark_has_it(inference.schema()) if field.name.lower() not in elsewhere]
        except BadConfigurationError as error:
            raise BadDataError(f"{file.url}: {error}") from None

    def _merged(self, found: pa.Schema, file: InputFile) -> pa.Schema:
        try:
            return merge_schemas(self._schema, found, file.url, keeps=self._keeps)
        except BadConfigurationError as error:
            raise BadDataError(f"{error}, or leave the file out with pathGlobFilter") from None

    @property
    def _keeps(self) -> bool:
        # A value of another type makes no file unreadable: of JSON it is a bad row, or it is rescued.
        return not self._format_reader.holds_schema or self._format_reader.options.rescue_column is not None

    def _remember(self, found: pa.Schema, file: InputFile, names: Iterable[str]) -> NoReturn:
        self._merged(found, file)
        new = ", ".join(names)
        known = self._location.add(found, file.url, keeps=self._keeps)
        if [field for field in known if field.name not in METADATA_SCHEMA.names] == list(self._schema):
            raise BadDataError(
                f"{file.url} has columns that the schema can't take: {new}. Another column may be called the same in "
                "another case; rename them, or set newColumns to ignore"
            )
        raise BadDataError(
            f"{file.url} has columns that the schema lacks, or wider types: {new}. {self._location.url} remembers "
            "them: load the files and start the query again to read them, or set newColumns to ignore"
        )
