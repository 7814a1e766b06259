"""Which column of a table a column of the rows goes to, and how: given as data, or as a dataclass."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any

from penstock.errors import BadConfigurationError
from penstock.options import load_object, nearest_hint

__all__ = ["Target", "column", "columns_of", "parse_columns"]

_METADATA = "penstock.cassandra"
_NULLS = ("delete", "unset")


@dataclass(frozen=True)
class Target:
    """A column of the table. ``nulls``: ``delete`` or ``unset``, ``None``: as for all columns."""

    name: str
    nulls: str | None = None


def column(name: str | None = None, *, nulls: str | None = None, default: Any = MISSING) -> Any:
    """Returns a field of a dataclass that is written to the column ``name`` of the table (default: that of the field's
    name).

    ``nulls`` is what a null of it does: ``delete`` or ``unset``; by default what the option ``nulls`` says. See
    :func:`columns_of`. Raises ValueError for other words.
    """
    if nulls not in (None, *_NULLS):
        raise ValueError(f"nulls is one of {', '.join(_NULLS)}, not '{nulls}'")
    return field(default=default, metadata={_METADATA: {"name": name, "nulls": nulls}})


def columns_of(mapped: type[Any]) -> str:
    """Returns the value of the sink's option ``columns`` for a dataclass, one of whose fields each column of the rows
    is::

        @dataclass
        class Reading:
            sensor: str = column("id")
            at: datetime
            celsius: float | None = column("temperature", nulls="unset", default=None)

        rows.write.format("penstock.cassandra").option("columns", columns_of(Reading))

    Raises TypeError for what is no dataclass.
    """
    if not (isinstance(mapped, type) and is_dataclass(mapped)):
        raise TypeError(f"{mapped!r} is not a dataclass")
    found = {}
    for one in fields(mapped):
        given = one.metadata.get(_METADATA, {})
        found[one.name] = {"name": given.get("name") or one.name, "nulls": given.get("nulls")}
    return json.dumps(found)


def parse_columns(text: str) -> dict[str, Target]:
    """By column of the rows. ``text`` is JSON, or ``package.module:Class`` of a dataclass.

    Raises BadConfigurationError.
    """
    if not text.lstrip().startswith("{"):
        mapped = load_object("option 'columns'", text)
        try:
            text = columns_of(mapped)
        except TypeError as error:
            raise BadConfigurationError(f"option 'columns': {error}") from error
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadConfigurationError(
            f'option \'columns\' is not JSON ({error}): write {{"column of the rows": "column of the table"}}'
        ) from error
    found = {name: _target(name, one) for name, one in given.items()}
    written = [one.name for one in found.values()]
    twice = next((name for name in written if written.count(name) > 1), None)
    if twice is not None:
        raise BadConfigurationError(f"option 'columns': two columns of the rows go to '{twice}'")
    return found


def _target(name: str, given: Any) -> Target:
    if isinstance(given, str):
        return Target(given)
    if not isinstance(given, Mapping):
        raise BadConfigurationError(f"option 'columns', '{name}': give a name, or an object with name and nulls")
    unknown = next((one for one in given if one not in ("name", "nulls")), None)
    if unknown is not None:
        near = nearest_hint(unknown, ("name", "nulls"))
        raise BadConfigurationError(f"option 'columns', '{name}': there is no '{unknown}', only name and nulls{near}")
    nulls = given.get("nulls")
    if nulls not in (None, *_NULLS):
        raise BadConfigurationError(f"option 'columns', '{name}': nulls is one of {', '.join(_NULLS)}, not '{nulls}'")
    return Target(given.get("name") or name, nulls)
