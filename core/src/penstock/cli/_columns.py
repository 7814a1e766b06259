"""Which columns sources and views have, as far as that is known without Spark.

Spark alone knows its SQL. What is read here is a list of plain columns: ``a``, ``a.b AS c``, ``value.*``. Everything
else is left to Spark, and what it makes is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.options import nearest_hint

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Fields",
    "Selected",
    "arrow_of_fields",
    "fields_of_arrow",
    "find_column",
    "select_fields",
    "shown_names",
    "split_list",
    "sql_outline",
]

#: By name; the value has the fields of a struct, or the type of anything else, as in DDL: empty if that is not known.
#: A name is compared without its case.
Fields = Mapping[str, "Fields | str"]

_NAME = r"[A-Za-z_]\w*"
_ITEM = re.compile(rf"({_NAME}(?:\.{_NAME})*(?:\.\*)?|\*)(?:\s+(?:as\s+)?({_NAME}))?", re.IGNORECASE)
_ALIAS = re.compile(rf"\bas\s+({_NAME})\s*$", re.IGNORECASE)
#: What looks like a column and is none, or is one of Spark's own.
_OTHER_WORDS = (
    "true",
    "false",
    "null",
    "user",
    "session_user",
    "localtimestamp",
    "_metadata",
    "window",
    "session_window",
)
_SHOWN = 12
_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_TEXTS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
#: One SELECT over one table.
_OUTLINE = re.compile(
    rf"\s*select\s+(?!distinct\b|all\b)(?P<items>.+?)\s+from\s+(?P<table>{_NAME})"
    rf"(?:\s+(?:as\s+)?(?P<alias>(?!where\b|group\b|having\b|order\b|limit\b){_NAME}))?"
    r"\s*(?P<rest>(?:where|group|having|order|limit)\b.*)?",
    re.IGNORECASE | re.DOTALL,
)
_MORE = re.compile(
    r"\b(?:select|from|join|union|except|intersect|minus|lateral|pivot|unpivot|tablesample|with)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Selected:
    """What a list of expressions makes: the columns, unless one of them has no known name; and what is wrong."""

    fields: Fields | None
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Outline:
    """A query of one SELECT over one table, which it calls ``alias``."""

    items: tuple[str, ...]
    table: str
    alias: str


def fields_of_arrow(schema: pa.Schema | pa.StructType) -> Fields:
    """Returns the columns of a schema, and of the structs in it."""
    import pyarrow as pa

    from penstock.serialization.ddl import shown_type

    return {
        field.name: fields_of_arrow(field.type) if pa.types.is_struct(field.type) else shown_type(field.type)
        for field in schema
    }


def arrow_of_fields(fields: Fields) -> pa.Schema | None:
    """Returns the schema of ``fields``; ``None`` if not every type in it is known."""
    import pyarrow as pa

    from penstock.serialization.ddl import parse_type

    found = []
    for name, type_ in fields.items():
        inner = None if isinstance(type_, str) else arrow_of_fields(type_)
        try:
            found.append(pa.field(name, parse_type(type_) if isinstance(type_, str) else pa.struct(inner or ())))
        except ValueError:
            return None
        if inner is None and not isinstance(type_, str):
            return None
    return pa.schema(found)


def split_list(text: str) -> list[str]:
    """Returns the parts between commas that are in no brackets and no texts."""
    parts, depth, begin = [], 0, 0
    masked = _TEXTS.sub(lambda found: "_" * len(found.group()), text)
    for position, char in enumerate(masked):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append(text[begin:position])
            begin = position + 1
    return [part.strip() for part in (*parts, text[begin:])]


def sql_outline(sql: str) -> Outline | None:
    """Returns the outline of a query that has one; ``None`` for any other."""
    text = _COMMENTS.sub(" ", sql)
    found = _OUTLINE.fullmatch(_TEXTS.sub(lambda one: "_" * len(one.group()), text))
    if found is None or found["items"].count("(") != found["items"].count(")"):
        return None
    if _MORE.search(f"{found['items']} {found['rest'] or ''}"):
        return None
    items = text[found.start("items") : found.end("items")]
    return Outline(tuple(split_list(items)), found["table"], found["alias"] or found["table"])


def find_column(path: Sequence[str], fields: Fields) -> Fields | str:
    """Returns the fields of the struct at ``path``, or the type of what else is there; empty if that is not known.

    Raises LookupError, with words, for a column that is not there.
    """
    here: Fields | str = fields
    for depth, name in enumerate(path):
        if isinstance(here, str):
            return ""
        found = _find(name, here)
        if found is None:
            known = list(here)
            hint = nearest_hint(name, known) or f"; there are: {shown_names(known)}"
            where = f"'{'.'.join(path[:depth])}' has no field" if depth else "there is no column"
            raise LookupError(f"{where} '{name}'{hint}")
        here = here[found]
    return here


def shown_names(names: Iterable[str]) -> str:
    """Returns the first of ``names``, for a message."""
    every = list(names)
    return f"{', '.join(every[:_SHOWN])}{', …' if len(every) > _SHOWN else ''}"


def select_fields(items: Sequence[str], fields: Fields, alias: str = "") -> Selected:
    """Returns what ``items``, expressions of SQL over ``fields``, make. ``alias`` is what their table is called."""
    made: dict[str, Fields | str] = {}
    problems: list[str] = []
    is_known = True
    for item in items:
        plain = _ITEM.fullmatch(item)
        if plain is None:
            named = _ALIAS.search(item)
            is_known = is_known and named is not None
            if named is not None:
                made[named[1]] = ""
            continue
        try:
            taken = _plain_item(plain[1], plain[2], fields, made, alias)
            is_known = is_known and taken is not None
            made.update(taken or ())
        except LookupError as error:
            problems.append(str(error.args[0]))
            is_known = is_known and not plain[1].endswith("*")
            made[plain[2] or plain[1].rpartition(".")[2]] = ""
    return Selected(made if is_known else None, tuple(problems))


def _plain_item(
    text: str, renamed: str | None, fields: Fields, above: Fields, alias: str
) -> Iterator[tuple[str, Fields | str]] | None:
    """Returns the columns of an item, with their names; ``None`` if they are not known.

    ``above``: those of the items before it, which it may use.
    """
    path = text.split(".")
    takes_all = path[-1] == "*"
    if takes_all:
        path.pop()
    if len(path) > (0 if takes_all else 1) and path[0].lower() == alias.lower() and _find(path[0], fields) is None:
        path = path[1:]
    if not takes_all and _is_no_column(path[0], above):
        return iter([(renamed or path[-1], "")])
    found = find_column(path, fields) if path else fields
    if not takes_all:
        return iter([(renamed or path[-1], found)])
    if not found:
        return None
    if isinstance(found, str):
        raise LookupError(f"'{'.'.join(path)}' is no struct, so '{text}' has no fields to take")
    return iter(found.items())


def _is_no_column(name: str, above: Fields) -> bool:
    low = name.lower()
    return low in _OTHER_WORDS or low.startswith("current_") or _find(name, above) is not None


def _find(name: str, fields: Fields) -> str | None:
    return next((one for one in fields if one.lower() == name.lower()), None)
