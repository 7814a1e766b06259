"""Commands that connectors bring: ``penstock kafka …``. One entry point each, in the group ``penstock.commands``."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from penstock._core_range import Package
from penstock._plugins import installed_connectors
from penstock.errors import BadConfigurationError

__all__ = ["HOW_TO_GET_ONE", "PluginCommands"]

GROUP = "penstock.commands"
HOW_TO_GET_ONE = "No connector is installed. Get one with: pip install penstock-filesystem"


class PluginCommands(TyperGroup):
    """The core's commands, and those of entry points; a plugin is imported only when its command is called for.

    One that does not fit the core is never imported. The help leaves out its command and that of one that fails, and
    says so; calling it is refused.

    An entry point's value is a ``typer.Typer``; its name is the command's. (Typer has brought along a click of its own,
    or used that of others: its types have no one name.)
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """See click."""
        own = super().list_commands(ctx)
        return own + sorted(name for name, entry in _plugins().items() if name not in own and not _problem(entry))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """See click. Raises BadConfigurationError if the plugin does not fit the core, or fails on import."""
        command = super().get_command(ctx, cmd_name)
        if command is None and cmd_name in (plugins := _plugins()):
            command = _load(plugins[cmd_name])
        if command is not None:
            _show_flags_as_such(ctx, command)
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """See click. Ends with plugins that fail, and with how to get a connector, if there is none."""
        notes = [text for text in map(_problem, _plugins().values()) if text]
        if not installed_connectors():
            notes.append(HOW_TO_GET_ONE)
        self.epilog = "\n\n".join(notes) or None
        _show_flags_as_such(ctx, self)
        super().format_help(ctx, formatter)


def _show_flags_as_such(ctx: Any, command: Any) -> None:
    """Lets the help of a command, and of those below it, show flags without a type, as they take no value."""
    for option in command.get_params(ctx):
        if getattr(option, "is_flag", False) and option.metavar is None:
            option.metavar = ""
    for below in getattr(command, "commands", {}).values():
        if below is not command:
            _show_flags_as_such(ctx, below)


def _plugins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _problem(entry: EntryPoint) -> str:
    """Returns why the command can't be used; empty if it can."""
    try:
        _load(entry)
    except BadConfigurationError as error:
        return str(error)
    return ""


def _load(entry: EntryPoint) -> Any:
    if problem := Package.of(entry.dist).core_problem():
        raise BadConfigurationError(f"the command '{entry.name}' can't be used: {problem}")
    try:
        plugin = entry.load()
    except Exception as error:
        raise BadConfigurationError(
            f"the command '{entry.name}' ({entry.value}) fails on import: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(plugin, typer.Typer):
        raise BadConfigurationError(f"the command '{entry.name}': {entry.value} is not a typer.Typer")
    command = typer.main.get_command(plugin)
    command.name = entry.name  # what the list of commands shows
    return command
