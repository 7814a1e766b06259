"""What files say of their schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock_filesystem.formats._input_file import InputFile

__all__ = ["FileSchemas", "SchemaInference", "merge_schemas"]


class SchemaInference(ABC):
    """Collects the schema of a read from file after file, in one thread. Made by :meth:`FormatReader.inference`."""

    @property
    def is_complete(self) -> bool:
        """Whether no further file can change the schema."""
        return False

    @abstractmethod
    def add(self, file: InputFile) -> None:
        """Takes in what ``file``, which is not empty, says.

        Raises OSError, pa.ArrowException, EOFError or ValueError for a file that can't be read, BadConfigurationError
        for one that contradicts the files before it, and BadDataError for a bad row if ``badRecords`` is fail.
        """

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Returns the schema of the files that were added. Raises BadConfigurationError if they hold no row."""

    def left_out(self, file: InputFile) -> str:
        """Returns the columns of ``file`` that the schema lacks or has with a smaller type; empty if there are none.

        Raises what :meth:`add` raises.
        """
        return ""


class FileSchemas(SchemaInference):
    """The schema of files that hold it themselves: the first file's, or with ``merge`` that of all.

    ``read`` returns the schema of one file.
    """

    def __init__(
        self, read: Callable[[InputFile], pa.Schema], progress: Callable[[int], object], *, merge: bool
    ) -> None:
        self._read = read
        self._progress = progress
        self._merge = merge
        self._schema: pa.Schema | None = None

    @property
    def is_complete(self) -> bool:
        """Whether a first file was read, unless all are wanted."""
        return self._schema is not None and not self._merge

    def add(self, file: InputFile) -> None:
        """Takes in the columns of a file."""
        schema = self._read(file)
        self._schema = schema if self._schema is None else merge_schemas(self._schema, schema, file.url)
        self._progress(file.size)

    def schema(self) -> pa.Schema:
        """Returns the columns in the order in which files brought them."""
        assert self._schema is not None, "no file was added"
        return self._schema

    def left_out(self, file: InputFile) -> str:
        """Returns the names and types of those columns."""
        ours = self.schema()
        merged = merge_schemas(ours, self._read(file), file.url)
        return ", ".join(f"{field.name} {field.type}" for field in merged if field not in list(ours))


def merge_schemas(one: pa.Schema, other: pa.Schema, url: str) -> pa.Schema:
    """Returns the columns of ``one``, and behind them those that only ``other`` has.

    Columns, and fields of structs, are the same if their names are, whatever their case. A column of two types has the
    wider one, as far as Arrow knows one (int32 and int64, or int64 and double). Raises BadConfigurationError that names
    ``url``, the file of ``other``, for types that do not go together.
    """
    fields = {field.name.lower(): field for field in one}
    for field in other:
        known = fields.get(field.name.lower())
        fields[field.name.lower()] = field if known is None else _merge_fields(known, field, url)
    return pa.schema(list(fields.values()))


def _merge_fields(one: pa.Field, other: pa.Field, url: str) -> pa.Field:
    try:
        return pa.field(one.name, _merge_types(one.type, other.type), one.nullable or other.nullable)
    except pa.ArrowException:
        raise BadConfigurationError(
            f"{url}: the column '{one.name}' is {other.type}, and {one.type} in the files before it: give a schema "
            "with .schema(...)"
        ) from None


def _merge_types(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Raises pa.ArrowException for types that do not go together."""
    one, other = (type_.value_type if pa.types.is_dictionary(type_) else type_ for type_ in (one, other))
    if one == other:
        return one
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {field.name.lower(): field for field in one}
        for field in other:
            known = fields.get(field.name.lower(), field)
            fields[field.name.lower()] = known.with_type(_merge_types(known.type, field.type)).with_nullable(True)
        return pa.struct(list(fields.values()))
    if _is_list(one) and _is_list(other):
        item = _merge_types(one.value_type, other.value_type)
        return pa.list_(one.value_field.with_type(item).with_nullable(True))
    if pa.types.is_map(one) and pa.types.is_map(other):
        item = _merge_types(one.item_type, other.item_type)
        return pa.map_(_merge_types(one.key_type, other.key_type), one.item_field.with_type(item).with_nullable(True))
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other) and (one.tz is None) == (other.tz is None):
        return pa.timestamp("us", None if one.tz is None else "UTC")
    if {_is_text(one), _is_text(other)} == {True, False} and not {one, other} & {pa.null()}:
        raise pa.ArrowTypeError("only texts are texts")
    merged = pa.unify_schemas([pa.schema([("", one)]), pa.schema([("", other)])], promote_options="permissive")
    if pa.types.is_decimal256(merged.field(0).type):
        raise pa.ArrowTypeError("more digits than 38")
    return merged.field(0).type


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))
