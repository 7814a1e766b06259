"""Avro schemas whose records, a few bytes long, can take a process down: fastavro trusts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["contains_itself", "holds_values_without_bytes", "is_without_bytes"]


def contains_itself(schema: Any) -> bool:
    """Returns whether values may be nested without end: fastavro follows them until the stack overflows."""
    return _reaches_itself(schema, _named(schema), ())


def holds_values_without_bytes(schema: Any) -> bool:
    """Returns whether an array in it has elements that take no bytes, so that its count may be anything."""
    named = _named(schema)
    return any(
        part.get("type") == "array" and is_without_bytes(part["items"], named)
        for part in _parts(schema)
        if isinstance(part, dict)
    )


def is_without_bytes(schema: Any, named: Mapping[str, Any] | None = None, within: tuple[str, ...] = ()) -> bool:
    """Returns whether every value of the schema takes no bytes: nulls, and records of nothing else."""
    named = _named(schema) if named is None else named
    if isinstance(schema, str):
        if schema in within:
            return False
        return schema == "null" or (schema in named and is_without_bytes(named[schema], named, (*within, schema)))
    if not isinstance(schema, dict):
        return False
    kind = schema["type"]
    if kind == "fixed":
        return bool(schema["size"] == 0)
    if kind in ("record", "error"):
        inside = (*within, schema["name"])
        return all(is_without_bytes(field["type"], named, inside) for field in schema["fields"])
    return kind not in ("array", "map", "enum") and is_without_bytes(kind, named, within)


def _inner(part: Any) -> list[Any]:
    if isinstance(part, list):
        return part
    if not isinstance(part, dict):
        return []
    nested = [part[key] for key in ("items", "values") if key in part]
    nested += [field["type"] for field in part.get("fields", ())]
    return nested + ([part["type"]] if isinstance(part["type"], dict | list) else [])


def _parts(schema: Any) -> Iterator[Any]:
    yield schema
    for one in _inner(schema):
        yield from _parts(one)


def _named(schema: Any) -> dict[str, Any]:
    return {part["name"]: part for part in _parts(schema) if isinstance(part, dict) and "name" in part}


def _reaches_itself(part: Any, named: Mapping[str, Any], within: tuple[str, ...]) -> bool:
    if isinstance(part, str):
        if part not in named:
            return False
        part = named[part]
    if isinstance(part, dict) and "name" in part:
        if part["name"] in within:
            return True
        within = (*within, part["name"])
    return any(_reaches_itself(one, named, within) for one in _inner(part))
