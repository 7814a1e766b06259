"""``penstock describe NAME -o …``: what a read with these options would do, without reading."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock._plugins import find_connector
from penstock.cli._screen import Screen, as_text, say_json
from penstock.errors import BadConfigurationError
from penstock.options import nearest_hint
from penstock.serialization.ddl import shown_type
from penstock.source import ColumnFilter, SupportsExplain, SupportsFilterPushDown

__all__ = ["explain_read", "parse_condition", "show_read"]

_CONDITION = re.compile(
    r"^\s*`?(?P<column>.+?)`?\s*(?:(?P<null>is(?:\s+not)?\s+null)|(?P<operator><=|>=|=|<|>)\s*(?P<value>.+?))\s*$",
    re.IGNORECASE,
)


def parse_condition(text: str, schema: pa.Schema) -> ColumnFilter:
    """``"day >= 2026-01-01"``, ``"note is not null"``: values are read as the column's type. BadConfigurationError."""
    match = _CONDITION.match(text)
    if match is None:
        raise BadConfigurationError(
            f"--filter '{text}': write COLUMN = VALUE, with <, <=, >, >= too, or COLUMN is null"
        )
    name = match["column"]
    if name not in schema.names:
        raise BadConfigurationError(f"--filter '{text}': there is no column '{name}'{nearest_hint(name, schema.names)}")
    if match["null"]:
        operator: Any = " ".join(match["null"].lower().split())
        return ColumnFilter(name, operator)
    value, kind = match["value"], schema.field(name).type
    if len(value) > 1 and value[0] == value[-1] == "'":
        value = value[1:-1].replace("''", "'")
    try:
        return ColumnFilter(name, match["operator"], pa.scalar(value, pa.string()).cast(kind).as_py())  # type: ignore[arg-type]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadConfigurationError(
            f"--filter '{text}': '{value}' is no {shown_type(kind)}, as column '{name}' is"
        ) from error


def explain_read(name: str, options: Mapping[str, str], conditions: Sequence[str]) -> dict[str, Any]:
    """Ready for JSON. ``filters`` says of each condition whether the source applies it; Spark applies the others.

    Raises BadConfigurationError, as starting the read would.
    """
    found = find_connector(name)
    connector = found.load()
    if connector.source_options is None:
        raise BadConfigurationError(f"{found.format} has no source")
    source = connector.create_source(connector.source_options.parse(dict(options), owner=f"source {found.format}"))
    schema = source.fixed_schema()
    if schema is None:
        schema = source.infer_schema()
    filters = [parse_condition(text, schema) for text in conditions]
    applied: Sequence[ColumnFilter] = ()
    if isinstance(source, SupportsFilterPushDown):
        source, applied = source.push_filters(filters)
    told = zip(conditions, filters, strict=True)
    return {
        "format": found.format,
        "columns": [{"name": field.name, "type": shown_type(field.type)} for field in schema],
        "read": list(source.explain()) if isinstance(source, SupportsExplain) else [],
        "filters": [{"condition": text.strip(), "applied": one in applied} for text, one in told],
    }


def show_read(name: str, options: Mapping[str, str], conditions: Sequence[str], *, as_json: bool) -> int:
    """The command."""
    found = explain_read(name, options, conditions)
    if as_json:
        say_json(found)
        return 0
    console = Screen()
    console.print(f"[bold cyan]{as_text(found['format'])}[/]")
    columns = ", ".join(f"{as_text(one['name'])} [dim]{as_text(one['type'])}[/]" for one in found["columns"])
    console.print(f"[dim]columns[/]  {columns}")
    for line in found["read"]:
        console.print(f"[dim]reads[/]    {as_text(line)}")
    for one in found["filters"]:
        who = "[green]the server applies it[/]" if one["applied"] else "[yellow]Spark applies it, to all rows read[/]"
        console.print(f"[dim]filter[/]   {as_text(one['condition'])}: {who}")
    return 0
