"""Commands that connectors bring: ``penstock kafka …``. One entry point each, in the group ``penstock.commands``."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from penstock.errors import BadConfigurationError

__all__ = ["PluginCommands"]

GROUP = "penstock.commands"


class PluginCommands(TyperGroup):
    """The core's commands, and those of entry points; a plugin is imported only when its command is called for.

    An entry point's value is a ``typer.Typer``; its name is the command's. (Typer has brought along a click of its own,
    or used that of others: its types have no one name.)
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """See click."""
        own = super().list_commands(ctx)
        return own + sorted(name for name in _plugins() if name not in own)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """See click. Raises BadConfigurationError if the plugin fails on import."""
        command = super().get_command(ctx, cmd_name)
        if command is not None or cmd_name not in (plugins := _plugins()):
            return command
        return _load(plugins[cmd_name])


def _plugins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _load(entry: EntryPoint) -> Any:
    try:
        plugin = entry.load()
    except Exception as error:
        raise BadConfigurationError(
            f"the command '{entry.name}' ({entry.value}) fails on import: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(plugin, typer.Typer):
        raise BadConfigurationError(f"the command '{entry.name}': {entry.value} is not a typer.Typer")
    return typer.main.get_command(plugin)
