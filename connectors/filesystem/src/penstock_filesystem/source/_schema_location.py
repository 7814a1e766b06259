"""The schemas that a stream has had, where the option ``schemaLocation`` says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError, FatalError, RetriableError
from penstock.serialization import MALFORMED, JsonSerializer
from penstock.serialization.ddl import format_type, parse_type
from penstock.storage import Storage, path_below
from penstock_filesystem.formats import merge_schemas

__all__ = ["SCHEMA_SERIALIZER", "SchemaLocation", "as_spark_has_it"]

_DAMAGED: tuple[type[Exception], ...] = (*MALFORMED, BadDataError)
_NAME = re.compile(r"schema-(\d{6})\.json")


def as_spark_has_it(schema: pa.Schema) -> pa.Schema:
    """Returns ``schema`` in the types that Spark gives its columns. Raises BadConfigurationError for one it can't.

    Columns and fields of which the type is null are left out: the first file with a value brings them.
    """
    fields = []
    for field in _with_values(list(schema)):
        try:
            fields.append(pa.field(field.name, parse_type(format_type(field.type))))
        except ValueError as error:
            raise BadConfigurationError(
                f"the column '{field.name}': {error}; give a schema with .schema(...)"
            ) from None
    return pa.schema(fields)


def _with_values(fields: list[pa.Field]) -> list[pa.Field]:
    typed = ((field, _with_value(field.type)) for field in fields)
    return [field.with_type(type_) for field, type_ in typed if type_ is not None]


def _with_value(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_struct(type_):
        fields = _with_values(list(type_))
        return pa.struct(fields) if fields else None
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        item = _with_value(type_.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_map(type_):
        item = _with_value(type_.item_type)
        return None if item is None or pa.types.is_null(type_.key_type) else pa.map_(type_.key_type, item)
    return None if pa.types.is_null(type_) else type_


#: A schema as JSON, its types in Spark's DDL: for people as well.
SCHEMA_SERIALIZER: JsonSerializer[pa.Schema] = JsonSerializer(
    1,
    lambda schema: {"columns": [[field.name, format_type(field.type)] for field in schema], "version": 1},
    lambda _, fields: pa.schema([(name, parse_type(type_)) for name, type_ in fields["columns"]]),
)


class SchemaLocation:
    """Keeps them in files of a directory, ``schema-000000.json`` and so on. The last one counts.

    A file is created if there is none of its name, and never changed: any task may add the next one, which has all
    columns of the previous one. Picklable; holds no state.
    """

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory

    @property
    def url(self) -> str:
        """The directory as a user writes it."""
        return self._storage.url(self._directory)

    def latest(self) -> pa.Schema | None:
        """Returns the last schema; ``None`` before the first. Raises as :meth:`add`."""
        with self._usable():
            found = self._last()
        return None if found is None else found[1]

    def begin(self, schema: pa.Schema) -> pa.Schema:
        """Stores ``schema`` as the first one, if no other process was faster. Returns the last one.

        Raises as :meth:`add`.
        """
        with self._usable():
            self._storage.create(self._path(0), SCHEMA_SERIALIZER.serialize(schema))
            return self._at_least_one()[1]

    def add(self, schema: pa.Schema, url: str, *, keeps: bool) -> pa.Schema:
        """Adds the columns of ``schema``, which the file ``url`` brings, and wider types. Returns the last schema.

        ``keeps`` as of :func:`merge_schemas`. Several processes may call it at once. Raises BadConfigurationError for
        types that do not go together, and for
        a directory that can't be used, RetriableError if the directory does not answer, or is not there, and FatalError
        for a damaged file.
        """
        with self._usable():
            while True:
                number, last = self._at_least_one()
                merged = merge_schemas(last, schema, url, keeps=keeps)
                if merged == last:
                    return last
                # If another process was faster, what it has written is looked at as well.
                self._storage.create(self._path(number + 1), SCHEMA_SERIALIZER.serialize(merged))

    def has_had(self, is_wanted: Callable[[pa.Schema], bool]) -> bool:
        """Returns whether one of the schemas is wanted: since a query began, tasks may have added columns.

        Raises as :meth:`add`.
        """
        with self._usable():
            return any(is_wanted(self._read(number)) for number in reversed(self._numbers()))

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            said = f"option 'schemaLocation': {self.url} can't be used: {error}"
            if isinstance(error, (PermissionError, NotADirectoryError, FileExistsError)):
                raise BadConfigurationError(said) from error
            raise RetriableError(said) from error

    def _at_least_one(self) -> tuple[int, pa.Schema]:
        found = self._last()
        if found is None:
            raise RetriableError(f"option 'schemaLocation': there is no schema in {self.url} any more: is it mounted?")
        return found

    def _numbers(self) -> list[int]:
        names = map(_NAME.fullmatch, self._storage.list_names(self._directory))
        return sorted(int(match[1]) for match in names if match)

    def _last(self) -> tuple[int, pa.Schema] | None:
        numbers = self._numbers()
        return (numbers[-1], self._read(numbers[-1])) if numbers else None

    def _path(self, number: int) -> str:
        return path_below(self._directory, f"schema-{number:06d}.json")

    def _read(self, number: int) -> pa.Schema:
        path = self._path(number)
        data = self._storage.read(path)
        try:
            return SCHEMA_SERIALIZER.deserialize(int(json.loads(data)["version"]), data)
        except _DAMAGED as error:
            raise FatalError(
                f"{self._storage.url(path)}, which remembers the schema, is damaged: put it back from a copy, or "
                f"choose another schemaLocation, for which the schema is inferred again ({error})"
            ) from None
