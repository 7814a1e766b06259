"""What of JSON objects does not fit the schema."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.serialization.values import TimeParser, value_converter

__all__ = ["LeftOver"]


class LeftOver:
    """Finds what of parsed objects does not fit ``type_``: fields that it lacks, and values of other types.

    A field that is an object has only what of it does not fit. A list or a map is there whole, if something in it does
    not fit or its elements have more fields. A field that is null has nothing that could be lost.
    """

    def __init__(self, type_: pa.StructType, times: TimeParser, *, non_numeric: bool) -> None:
        self._problems: list[str] = []
        self._fields = {
            field.name: (field.type, value_converter(field.type, times, self._refuse, non_numeric=non_numeric))
            for field in type_
        }
        self._members = {
            field.name: LeftOver(field.type, times, non_numeric=non_numeric)
            for field in type_
            if pa.types.is_struct(field.type)
        }

    def _refuse(self, problem: str) -> None:
        self._problems.append(problem)

    def of(self, value: dict[str, Any], *, is_typed: bool) -> dict[str, Any]:
        """Returns what is left of an object. ``is_typed``: all of its known fields are known to be of their types."""
        left = {}
        for name, one in value.items():
            members = self._members.get(name)
            if members is not None and isinstance(one, dict):
                rest = members.of(one, is_typed=is_typed)
                if rest:
                    left[name] = rest
            elif one is not None and not self._fits(name, one, is_typed):
                left[name] = one
        return left

    def _fits(self, name: str, value: Any, is_typed: bool) -> bool:
        if name not in self._fields:
            return False
        type_, convert = self._fields[name]
        self._problems.clear()
        if not is_typed:
            convert(value, name)
        return not self._problems and not _has_more(value, type_)


def _has_more(value: Any, type_: pa.DataType) -> bool:
    """Returns whether an object somewhere in ``value`` has a field that ``type_`` lacks."""
    if isinstance(value, list) and pa.types.is_list(type_):
        return any(_has_more(one, type_.value_type) for one in value)
    if not isinstance(value, dict):
        return False
    if pa.types.is_map(type_):
        return any(_has_more(one, type_.item_type) for one in value.values())
    if not pa.types.is_struct(type_):
        return False
    known = {field.name: field.type for field in type_}
    return any(_has_more(one, known[name]) if name in known else one is not None for name, one in value.items())
