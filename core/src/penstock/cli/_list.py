"""``penstock list``."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table

from penstock._plugins import InstalledConnector, installed_connectors
from penstock._version import __version__
from penstock.cli._plugins import HOW_TO_GET_ONE
from penstock.cli._screen import Screen, as_text, say, say_json
from penstock.connector import Capability
from penstock.errors import BadConfigurationError

__all__ = ["ListedConnector", "list_connectors", "show_list"]


@dataclass(frozen=True)
class ListedConnector:
    """A row of the list. ``problem`` is empty if the connector can be used."""

    format: str
    package: str
    version: str
    needs_core: str
    fits: bool
    reads: str
    writes: str
    guarantee: str
    problem: str


def list_connectors() -> list[ListedConnector]:
    """Returns every installed connector; those that fit are imported to ask them what they can do."""
    return [_listed(connector) for connector in installed_connectors()]


def _listed(found: InstalledConnector) -> ListedConnector:
    reads = writes = guarantee = problem = ""
    try:
        connector = found.load()
    except BadConfigurationError as error:
        problem = found.problem or str(error)
    else:
        can = connector.capabilities
        reads = _kinds(Capability.BATCH_READ in can, Capability.STREAM_READ in can)
        writes = _kinds(Capability.BATCH_WRITE in can, Capability.STREAM_WRITE in can)
        guarantee = connector.describe_guarantee()
    return ListedConnector(
        format=found.format,
        package=found.distribution,
        version=found.version,
        needs_core=found.requires_core,
        fits=not found.problem,
        reads=reads,
        writes=writes,
        guarantee=guarantee,
        problem=problem,
    )


def _kinds(batch: bool, stream: bool) -> str:
    return ", ".join(name for name, can in (("batch", batch), ("stream", stream)) if can)


def show_list(*, as_json: bool) -> int:
    """The command. Exit code 1 if a connector is installed that can't be used."""
    listed = list_connectors()
    if as_json:
        say_json({"penstock": __version__, "connectors": [asdict(one) for one in listed]})
    elif not listed:
        say(HOW_TO_GET_ONE)
    else:
        _print_table(listed)
    return 1 if any(one.problem for one in listed) else 0


def _print_table(listed: list[ListedConnector]) -> None:
    console = Screen()
    table = Table(title=f"Connectors for penstock {__version__}", title_justify="left", box=SIMPLE_HEAD)
    for name in ("connector", "fits", "reads", "writes"):
        table.add_column(name, no_wrap=True)
    table.add_column("guarantee", ratio=1)
    for one in listed:
        needs = f"needs core {one.needs_core}" if one.needs_core else "any core"
        table.add_row(
            f"[bold cyan]{as_text(one.format)}[/]\n[dim]{as_text(f'{one.package} {one.version}')}\n{as_text(needs)}[/]",
            "[red]✗[/]" if one.problem else "[green]✓[/]",
            as_text(one.reads).replace(", ", "\n") or "–",
            as_text(one.writes).replace(", ", "\n") or "–",
            as_text(one.guarantee).replace("; ", "\n"),
        )
    console.print(table)
    for one in listed:
        if one.problem:
            console.print(f"[red]✗[/] {as_text(one.format)}: {as_text(one.problem)}", soft_wrap=True)
