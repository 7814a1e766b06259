"""CQL's types as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.errors import BadConfigurationError

__all__ = ["FIXED", "CqlType", "cql_type_of"]

#: Types whose values have one size in bytes.
FIXED = {
    "bigint": 8,
    "boolean": 1,
    "counter": 8,
    "date": 4,
    "double": 8,
    "float": 4,
    "int": 4,
    "smallint": 2,
    "time": 8,
    "timestamp": 8,
    "timeuuid": 16,
    "tinyint": 1,
    "uuid": 16,
}
_SIMPLE = {*FIXED, "ascii", "blob", "decimal", "duration", "inet", "text", "varint"}
_ALIASES = {"varchar": "text"}


@dataclass(frozen=True)
class CqlType:
    """A type: ``args`` are those of its elements, ``fields`` the names of a user-defined type's fields.

    ``frozen`` makes no difference to a value, and is left out. ``size`` is a vector's. ``label`` is a user-defined
    type's name.
    """

    name: str
    args: tuple[CqlType, ...] = ()
    fields: tuple[str, ...] = ()
    size: int = 0
    label: str = ""

    def __str__(self) -> str:
        """Returns the type as it is written in CQL."""
        if self.name == "udt":
            return self.label
        inner = [str(one) for one in self.args] + ([str(self.size)] if self.size else [])
        return f"{self.name}<{', '.join(inner)}>" if inner else self.name


def cql_type_of(driver_type: Any) -> CqlType:
    """Returns the type of a column or marker, from the driver's class for it. Raises BadConfigurationError for custom
    types.
    """
    name = str(driver_type.typename)
    name = _ALIASES.get(name, name)
    inner = [one for one in getattr(driver_type, "subtypes", ()) if one is not None]
    if name in ("frozen", "reversed") or "ReversedType" in name:
        return cql_type_of(inner[0])
    if hasattr(driver_type, "vector_size"):
        return CqlType("vector", (cql_type_of(driver_type.subtype),), size=int(driver_type.vector_size))
    args = tuple(cql_type_of(one) for one in inner)
    if getattr(driver_type, "fieldnames", None):
        return CqlType("udt", args, tuple(driver_type.fieldnames), label=str(getattr(driver_type, "typename", "udt")))
    if name in ("list", "set", "map", "tuple"):
        return CqlType(name, args)
    if name not in _SIMPLE:
        raise BadConfigurationError(f"type {name} is a custom type of the server, which can't be read or written here")
    return CqlType(name)
