"""The smaller parts of a pipeline file. Each reader records its mistakes in the document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.cli._columns import split_list
from penstock.cli._ddl import check_ddl
from penstock.cli._keys import TRIGGER, WATERMARK
from penstock.cli._located import Located
from penstock.options import nearest_hint, parse_duration_ms
from penstock.serialization import shortened

__all__ = [
    "Trigger",
    "Watermark",
    "read_list",
    "read_options",
    "read_schema",
    "read_settings",
    "read_trigger",
    "read_watermark",
    "values_of",
]


@dataclass(frozen=True)
class Watermark:
    """How long rows of ``column`` (event time) may come late. ``delay`` is an interval as Spark reads it."""

    column: str
    delay: str
    at: Located = field(repr=False, compare=False)


@dataclass(frozen=True)
class Trigger:
    """When batches run: all there is now and then the end, at an interval, or (neither) as soon as possible."""

    available_now: bool = False
    processing_time: str | None = None


def read_schema(at: Located) -> str | None:
    """Returns the DDL as it stands."""
    text = at.text()
    if text is not None:
        try:
            check_ddl(text)
        except ValueError as error:
            at.complain(f"bad schema: {error}")
    return text


def read_watermark(at: Located) -> Watermark | None:
    """``{column, delay}``. A column of a struct can't have one, whatever the schema."""
    keys = at.section("{column: ..., delay: ...}", WATERMARK, WATERMARK)
    column = keys["column"].text() if keys and "column" in keys else None
    if keys and column and "." in column and not column.startswith("`"):
        struct, _, name = column.rpartition(".")
        keys["column"].complain(
            f"Spark takes a watermark of a column at the top level only, and '{name}' is a field of '{struct}': write "
            f"'flatten: {struct}' or '{column} AS {name}' in a select before it, and 'column: {name}'"
        )
        return None
    delay = _interval(keys["delay"]) if keys and "delay" in keys else None
    return Watermark(column, delay, keys["column"]) if keys and column and delay else None


def read_list(at: Located) -> list[tuple[str, Located]]:
    """Returns the values of a list, or those between the commas of one text, each with its place."""
    found = [(item.text(), item) for item in at.items()] if at.is_list else []
    if not at.is_list and (text := at.text()) is not None:
        found = [(part, at) for part in split_list(text)]
    for text, place in found:
        if text is not None and not text.strip():
            place.complain(f"'{at.name}' has an empty entry")
    return [(text, place) for text, place in found if text]


def _interval(at: Located) -> str | None:
    """Returns a duration, in the words that Spark takes."""
    text = at.text()
    if text is None:
        return None
    if text.strip().isdecimal() and text.strip().strip("0"):
        at.complain(f"'{shortened(text)}' has no unit: write {shortened(text)} seconds, or minutes, hours, …")
        return None
    try:
        return f"{parse_duration_ms(text)} milliseconds"
    except ValueError as error:
        at.complain(f"'{shortened(text)}' is not {error}")
        return None


def read_trigger(at: Located) -> Trigger:
    """``availableNow`` or ``{processingTime: ...}``."""
    if not at.is_mapping:
        text = at.text()
        if text is not None and text.lower() != "availablenow":
            hint = nearest_hint(text, ["availableNow"])
            at.complain(f"'{text}' is not a trigger: write availableNow or {{processingTime: 10 seconds}}{hint}")
        return Trigger(available_now=True)
    words = "availableNow or {processingTime: ...}"
    entries = at.mapping(words) or {}
    if (now := next((key for name, (key, _) in entries.items() if name.lower() == "availablenow"), None)) is not None:
        now.complain(f"'{now.name}' has no value of its own: write 'trigger: availableNow'")
        return Trigger(available_now=True)
    keys = at.section(words, TRIGGER, TRIGGER) or {}
    return Trigger(processing_time=_interval(keys["processingTime"]) if "processingTime" in keys else None)


def read_options(at: Located) -> dict[str, tuple[tuple[Located, Located], str]]:
    """Name → (the places of the name and the value, the value's text)."""
    entries = at.mapping("a mapping of option to value") or {}
    texts: dict[str, tuple[tuple[Located, Located], str]] = {}
    by_lower: dict[str, str] = {}
    for name, (key, value) in entries.items():
        if by_lower.setdefault(name.lower(), name) != name:
            key.complain(f"option '{name}' is given twice (also as '{by_lower[name.lower()]}')")
            continue
        text = _list_text(value) if value.is_list else value.text()
        if text is not None:
            texts[name] = ((key, value), text)
    return texts


def _list_text(at: Located) -> str | None:
    """Returns a list as the JSON text that options which take several values are written in."""
    texts = [item.text() for item in at.items()]
    return None if None in texts else json.dumps(texts)


#: What Spark itself takes; a package may bring a cluster manager with a scheme of its own.
_MASTER = re.compile(
    r"local|local\[(?:\*|0*[1-9][0-9]*)(?:\s*,\s*[0-9]+)?\]|local-cluster\[\s*[0-9]+\s*,\s*[0-9]+\s*,\s*[0-9]+\s*\]"
    r"|yarn|[a-z][\w+.-]*://\S+"
)


def read_settings(at: Located) -> dict[str, str]:
    """Returns Spark's settings. Spark takes any name, and a name without a dot has no effect."""
    texts = read_options(at)
    for name, ((key, value), text) in texts.items():
        if "." not in name:
            key.complain(f"Spark has no setting '{name}': their names begin with 'spark.', as in 'spark.{name}'")
        if name == "spark.master" and not _MASTER.fullmatch(text):
            value.complain(
                f"'{text}' is not a Spark master: write local[*], local[2], spark://host:7077, yarn or k8s://…"
            )
    return values_of(texts)


def values_of(texts: Mapping[str, tuple[object, str]]) -> dict[str, str]:
    """Name → text, of what :func:`read_options` returned."""
    return {name: text for name, (_, text) in texts.items()}
