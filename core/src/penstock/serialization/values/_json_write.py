"""Structs and rows to JSON objects, without a loop over rows."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization.values._text import ValueText, holds_any, is_plain, is_text

__all__ = ["JsonWriter", "why_not_json"]

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_CONTROLS = {chr(code): f"\\u{code:04x}" for code in range(32) if chr(code) not in _ESCAPES}


def why_not_json(type_: pa.DataType) -> str:
    """Returns what to do about a type of which :class:`JsonWriter` can't write values; empty if it can."""
    types = pa.types
    if types.is_struct(type_):
        return next(filter(None, (why_not_json(field.type) for field in type_)), "")
    if types.is_map(type_):
        return why_not_json(type_.item_type) if is_text(type_.key_type) else "keys of a map must be strings"
    if types.is_list(type_) or types.is_large_list(type_):
        return why_not_json(type_.value_type)
    return "" if is_plain(type_) or types.is_binary(type_) or types.is_large_binary(type_) else "cast it to string"


class JsonWriter:
    """Writes JSON as Spark does: binary in base 64, NaN and infinity as strings. Texts are joined column by column.

    ``ignore_nulls``: fields that are null are left out. In maps and lists they are null.
    """

    def __init__(self, text: ValueText, *, ignore_nulls: bool) -> None:
        self._text = text
        self._ignore_nulls = ignore_nulls

    def objects(self, names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
        """Returns an object for each row (string)."""
        members = [self._member(name, self.values(column)) for name, column in zip(names, columns, strict=True)]
        # Each member brings its comma. (Joining them by a comma would do, but loses rows whose members are all null.)
        joined = pc.binary_join_element_wise("{", *members, "}", "", null_handling="skip")
        return pc.replace_substring(joined, "{,", "{", max_replacements=1)

    def _member(self, name: str, values: pa.Array) -> pa.Array:
        key = f",{_quoted(pa.array([name], pa.string()))[0].as_py()}:"
        if not self._ignore_nulls:
            values = pc.fill_null(values, "null")
        return pc.binary_join_element_wise(key, values, "")

    def values(self, values: pa.Array) -> pa.Array:
        """Returns the JSON of every value (string); null stays null."""
        kind, types = values.type, pa.types
        if types.is_struct(kind):
            names = [field.name for field in kind]
            return pc.if_else(values.is_valid(), self.objects(names, values.flatten()), None)
        if types.is_map(kind):
            return self._map(values)
        if types.is_list(kind) or types.is_large_list(kind):
            return _joined(values, self._filled(values.flatten()), "[", "]")
        if types.is_binary(kind) or types.is_large_binary(kind):
            # A loop per row: Arrow has no base 64.
            encoded = [None if v is None else base64.b64encode(v).decode() for v in values.to_pylist()]
            return _in_quotes(pa.array(encoded, pa.string()))
        text = self._text(values)
        if is_text(kind):
            return _quoted(text)
        if types.is_floating(kind):
            is_finite = pc.is_finite(values)
            return text if pc.all(is_finite).as_py() is not False else pc.if_else(is_finite, text, _in_quotes(text))
        return _in_quotes(text) if types.is_temporal(kind) else text

    def _map(self, values: pa.Array) -> pa.Array:
        entries = values.cast(pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])))
        keys, items = entries.flatten().flatten()
        members = pc.binary_join_element_wise(_quoted(keys.cast(pa.string())), self._filled(items), ":")
        return _joined(entries, members, "{", "}")

    def _filled(self, values: pa.Array) -> pa.Array:
        return pc.fill_null(self.values(values), "null")


def _joined(lists: pa.Array, elements: pa.Array, opening: str, closing: str) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths.cast(pa.int64()))])
    joined = pc.binary_join(pa.LargeListArray.from_arrays(offsets, elements), ",")
    return pc.if_else(lists.is_valid(), pc.binary_join_element_wise(opening, joined, closing, ""), None)


def _in_quotes(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _quoted(text: pa.Array) -> pa.Array:
    for escapes in (_ESCAPES, _CONTROLS):
        # Looking for them first takes a fraction of the time that replacing them takes.
        if holds_any(text, "".join(escapes).encode()):
            for character, escaped in escapes.items():
                text = pc.replace_substring(text, character, escaped)
    return _in_quotes(text)
