"""``penstock describe NAME``: from the declarations that also validate the options."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from penstock._plugins import find_connector
from penstock.cli._screen import Screen, as_text, say, say_json
from penstock.options import Option, OptionSet

__all__ = ["describe", "markdown_of", "show_connector"]

#: Below this width, names and values would be cut in a table.
_TABLE_WIDTH = 110


def describe(name: str) -> dict[str, Any]:
    """Everything a connector declares, ready for JSON. Raises BadConfigurationError with the nearest name."""
    found = find_connector(name)
    connector = found.load()
    return {
        "format": found.format,
        "package": found.distribution,
        "version": found.version,
        "needs_core": found.requires_core,
        "summary": connector.summary,
        "guarantee": connector.describe_guarantee(),
        "capabilities": sorted(connector.capabilities),
        "source_options": _options(connector.source_options),
        "sink_options": _options(connector.sink_options),
    }


def _options(declared: OptionSet | None) -> list[dict[str, Any]] | None:
    return None if declared is None else [_option(option) for option in declared]


def _option(option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "type": option.kind,
        "choices": list(option.all_choices()),
        "default": option.default,
        "required": option.required,
        "secret": option.secret,
        "minimum": option.minimum,
        "maximum": option.maximum,
        "aliases": list(option.aliases),
        "rules": option.rules(),
        "doc": option.doc,
    }


def show_connector(name: str, form: str) -> int:
    """The command; ``form`` is ``text``, ``json`` or ``markdown``."""
    described = describe(name)
    if form == "json":
        say_json(described)
    elif form == "markdown":
        say(markdown_of(described).rstrip("\n"), lines=True)
    else:
        _print(described)
    return 0


def _type(option: dict[str, Any]) -> str:
    return " | ".join(option["choices"]) if option["choices"] else str(option["type"])


def _default(option: dict[str, Any]) -> str:
    """Returns the default as it would be typed; what can't be seen is quoted."""
    default = option["default"]
    if default is None:
        return ""
    return str(default) if default.strip() else repr(default)


def _print(described: dict[str, Any]) -> None:
    console = Screen()
    console.print(
        f"[bold cyan]{as_text(described['format'])}[/]  {as_text(described['package'])} {described['version']}"
    )
    console.print(as_text(described["summary"]))
    console.print(f"[dim]guarantee[/]  {as_text(described['guarantee'])}")
    console.print(f"[dim]can[/]        {', '.join(described['capabilities'])}")
    for role in ("source", "sink"):
        options = described[f"{role}_options"]
        console.print()
        if options is None:
            console.print(f"no {role}")
        elif console.width < _TABLE_WIDTH:
            _print_list(console, role, options)
        else:
            console.print(_option_table(role, options))


def _print_list(console: Console, role: str, options: list[dict[str, Any]]) -> None:
    """Prints the options below each other, for a screen on which a table would have narrow columns."""
    console.print(f"[bold]Options of the {role}[/]")
    for option in options:
        default = f" [dim]=[/] {as_text(_default(option))}" if option["default"] is not None else ""
        console.print()
        console.print(f"[cyan]{as_text(option['name'])}[/]  [dim]{as_text(_type(option))}[/]{default}")
        console.print(Padding(_words(option), (0, 0, 0, 4)))


def _words(option: dict[str, Any]) -> str:
    marks = [f"[yellow]{word}[/] " for word in ("required", "secret") if option[word]]
    return "".join(marks) + as_text(option["doc"]) + "".join(f"\n[dim]{as_text(rule)}[/]" for rule in option["rules"])


def _option_table(role: str, options: list[dict[str, Any]]) -> Table:
    table = Table(title=f"Options of the {role}", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("option", style="cyan", no_wrap=True)
    table.add_column("type, default", overflow="fold", max_width=24)
    table.add_column("what it does", ratio=1)
    for option in options:
        default = f"\n[dim]=[/] {as_text(_default(option))}" if option["default"] is not None else ""
        table.add_row(as_text(option["name"]), f"[dim]{as_text(_type(option))}[/]{default}", _words(option))
    return table


def markdown_of(described: dict[str, Any]) -> str:
    """Returns the reference page of a connector."""
    lines = [
        f"# {described['format']}",
        "",
        described["summary"],
        "",
        f"- Package: `{described['package']}`, needs `penstock{described['needs_core']}`",
        f"- Guarantee: {described['guarantee']}",
        f"- Can: {', '.join(described['capabilities'])}",
    ]
    for role in ("source", "sink"):
        options = described[f"{role}_options"]
        if options is not None:
            lines += ["", f"## Options of the {role}", "", *_markdown_table(options)]
    return "\n".join(lines) + "\n"


def _markdown_table(options: list[dict[str, Any]]) -> list[str]:
    lines = ["| option | type | default | what it does |", "|---|---|---|---|"]
    for option in options:
        marks = "".join(f"*{word}.* " for word in ("required", "secret") if option[word])
        default = f"`{_default(option)}`" if option["default"] is not None else ""
        text = ". ".join((option["doc"].removesuffix("."), *option["rules"]))
        cells = [f"`{option['name']}`", _type(option), default, marks + text]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines
