"""Files that have columns which the remembered schema lacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError, RetriableError
from penstock.serialization import MALFORMED
from penstock_filesystem.formats import FormatReader, InputFile, merge_schemas
from penstock_filesystem.source._metadata import METADATA_SCHEMA
from penstock_filesystem.source._partitions import PartitionColumns
from penstock_filesystem.source._schema_location import SchemaLocation, as_spark_has_it

__all__ = ["NewColumns"]


class NewColumns:
    """Finds them in a task, has them remembered, and ends the task. ``schema`` is that of the read.

    Of a format whose files hold their schema, a file is looked at before it is read; of JSON, its rows as they are
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
        self._schema = pa.schema([field for field in schema if field.name not in METADATA_SCHEMA.names])
        self._checked = ""

    def check(self, file: InputFile) -> None:
        """Looks at what a file says of its columns. Raises as :meth:`refuse`, and as reading the file does."""
        if not self._format_reader.holds_schema or self._checked == file.path:
            return
        found = self._columns(file)
        new = [field.name for field in self._merged(found, file) if field not in list(self._schema)]
        if new:
            self._remember(found, file, new)
        self._checked = file.path

    def refuse(self, file: InputFile, names: Iterable[str]) -> NoReturn:
        """Has the columns of a file remembered. Raises BadDataError, which names those that are new.

        Raises RetriableError if the file can't be read again, or the directory can't be written.
        """
        try:
            found = self._columns(file)
        except (OSError, pa.ArrowException, *MALFORMED) as error:
            raise RetriableError(f"{file.url} could not be read again for its columns: {error}") from error
        self._remember(found, file, names)

    def _columns(self, file: InputFile) -> pa.Schema:
        inference = self._format_reader.inference(lambda _: None)
        inference.add(file)
        known = {name.lower() for name in METADATA_SCHEMA.names}
        if self._partitions is not None:
            known |= {name.lower() for name in self._partitions.texts(file.path)}
        columns = pa.schema([field for field in inference.schema() if field.name.lower() not in known])
        try:
            return as_spark_has_it(columns)
        except BadConfigurationError as error:
            raise BadDataError(f"{file.url}: {error}") from None

    def _merged(self, found: pa.Schema, file: InputFile) -> pa.Schema:
        try:
            return merge_schemas(self._schema, found, file.url)
        except BadConfigurationError as error:
            raise BadDataError(f"{error}, or leave the file out with pathGlobFilter") from None

    def _remember(self, found: pa.Schema, file: InputFile, names: Iterable[str]) -> NoReturn:
        self._merged(found, file)
        new = ", ".join(names)
        if self._location.add(found, file.url) == self._schema:
            raise BadDataError(
                f"{file.url} has columns that the schema can't take: {new}. Another column may be called the same in "
                "another case; rename them, or set newColumns to ignore"
            )
        raise BadDataError(
            f"{file.url} has columns that the schema lacks, or wider types: {new}. {self._location.url} remembers "
            "them: start the query again to read them, or set newColumns to ignore"
        )
