"""What files say of their schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.serialization.ddl import shown_type
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
        ours = merge_schemas(self.schema(), self.schema(), file.url)  # without dictionaries
        merged = merge_schemas(ours, self._read(file), file.url)
        return ", ".join(f"{field.name} {shown_type(field.type)}" for field in merged if field not in list(ours))


def merge_schemas(one: pa.Schema, other: pa.Schema, url: str, *, keeps: bool = False) -> pa.Schema:
    """Returns the columns of ``one``, and behind them those that only ``other`` has.

    Columns, and fields of structs, are the same if their names are, or else if only the case differs. A column of two
    types has the wider one, if that loses nothing: long of int and long, double of float and int, and so on. With
    ``keeps``, a column has its type in ``one`` where the types do not go together; otherwise this raises
    BadConfigurationError that names ``url``, the file of ``other``.
    """

    def merged(field: pa.Field, new: pa.Field) -> pa.Field:
        try:
            type_ = _merge_types(field.type, new.type, keeps=keeps)
        except pa.ArrowException:
            raise BadConfigurationError(
                f"{url}: the column '{field.name}' is {shown_type(new.type, field.type)}, and "
                f"{shown_type(field.type, new.type)} in the files before it: give a "
                "schema with .schema(...)"
            ) from None
        return pa.field(field.name, type_, field.nullable or new.nullable)

    return pa.schema(_merge_fields(list(one), list(other), merged))


def _merge_fields(
    ones: list[pa.Field], others: list[pa.Field], merged: Callable[[pa.Field, pa.Field], pa.Field]
) -> list[pa.Field]:
    fields = {field.name: field for field in ones}
    by_case = {field.name.lower(): field.name for field in reversed(ones)}
    names = {field.name for field in others}
    for field in others:
        name = field.name if field.name in fields else by_case.get(field.name.lower(), field.name)
        if name != field.name and name in names:  # the other file has both
            name = field.name
        fields[name] = merged(fields[name], field) if name in fields else field
    return list(fields.values())


def _merge_types(one: pa.DataType, other: pa.DataType, *, keeps: bool) -> pa.DataType:
    """Raises pa.ArrowException for types that do not go together, unless it ``keeps`` the first."""
    one, other = (type_.value_type if pa.types.is_dictionary(type_) else type_ for type_ in (one, other))
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other):

        def merged(field: pa.Field, new: pa.Field) -> pa.Field:
            return pa.field(field.name, _merge_types(field.type, new.type, keeps=keeps))

        return pa.struct(_merge_fields(list(one), list(other), merged))
    if _is_list(one) and _is_list(other):
        return pa.list_(pa.field("element", _merge_types(one.value_type, other.value_type, keeps=keeps)))
    if pa.types.is_map(one) and pa.types.is_map(other):
        keys = _merge_types(one.key_type, other.key_type, keeps=keeps)
        return pa.map_(keys, _merge_types(one.item_type, other.item_type, keeps=keeps))
    wider = _wider(one, other)
    if wider is None and not keeps:
        raise pa.ArrowTypeError("they do not go together")
    return one if wider is None else wider


#: Decimal digits of whole numbers, as Arrow's casts count them.
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
_FLOATS = (pa.float16(), pa.float32(), pa.float64())
_MOST_DIGITS = 38


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Returns the type that holds all values of both, as the reader casts them; ``None`` if there is none."""
    both = (one, other)
    if all(map(_is_text, both)):
        return pa.string()
    if all(map(_is_binary, both)):
        return pa.binary()
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other) and (one.tz is None) == (other.tz is None):
        return pa.timestamp("us", None if one.tz is None else "UTC")
    if all(type_ in _DIGITS for type_ in both):
        return max(both, key=lambda type_: _DIGITS[type_])
    if all(type_ in _DIGITS or type_ in _FLOATS for type_ in both):
        return pa.float64()
    if all(type_ in _DIGITS or pa.types.is_decimal(type_) for type_ in both):
        scale = max(getattr(type_, "scale", 0) for type_ in both)
        whole = max(_DIGITS.get(type_) or type_.precision - type_.scale for type_ in both)
        return pa.decimal128(whole + scale, scale) if whole + scale <= _MOST_DIGITS else None
    return None


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _is_binary(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(type_) or types.is_large_binary(type_) or types.is_fixed_size_binary(type_))
