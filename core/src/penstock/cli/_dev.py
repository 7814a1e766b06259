"""``penstock dev``: servers to try connectors with, for users without one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from penstock._plugins import find_connector
from penstock.cli._draw import human_bytes, plural
from penstock.cli._screen import Screen, as_text, say, say_json
from penstock.dev import DevServer, Found, Progress, Record, Status, Way, down, status, up, way_named
from penstock.errors import BadConfigurationError

__all__ = ["show_status", "start_server", "stop_server"]


def start_server(name: str, wanted: str | None, port: int | None, version: str | None, *, as_json: bool) -> int:
    """``penstock dev up``. Raises what :func:`penstock.dev.up` raises."""
    server = _server_of(name)
    if version is not None:
        if wanted in (None, "address") and os.environ.get(server.environment_variable):
            raise BadConfigurationError(
                f"{server.environment_variable} is set, so nothing would be started: unset it, or leave out --version"
            )
        server = server.of_version(version)
    began = time.monotonic()
    with _progress() as progress:
        found = up(server, way=_way(wanted), port=port, progress=progress)
    if as_json:
        say_json(_found_fields(server, found))
    else:
        _print_found(server, found, time.monotonic() - began)
    return 0


def stop_server(name: str, *, keep_data: bool, as_json: bool) -> int:
    """``penstock dev down``. Not an error if nothing runs; raises what :func:`penstock.dev.down` raises."""
    ended = down(name, keep_data=keep_data)
    if ended is None:
        find_connector(name)  # a slip in the name is worth an error
    if as_json:
        say_json({"name": name, "ended": ended is not None and ended.running, "data_kept": keep_data})
    elif ended is None:
        say(f"{name}: nothing was running" + ("" if keep_data else ", no data is left"))
    else:
        how = "ended" if ended.running else "had ended before, by itself or by another process"
        say(f"{name}: {_what(ended.record)} {how}; its data is {'kept' if keep_data else 'deleted'}")
    return 0


def show_status(*, as_json: bool) -> int:
    """``penstock dev status``. Exit code 1 if a server that was started has ended without us."""
    found = status()
    if as_json:
        say_json([_status_fields(one) for one in found])
    elif not found:
        say("No development server is running. Start one with: penstock dev up kafka")
    else:
        _print_status(found)
    return 0 if all(one.running for one in found) else 1


def _server_of(name: str) -> DevServer:
    connector = find_connector(name)
    server = connector.load().dev_server()
    if server is None:
        raise BadConfigurationError(f"connector '{connector.name}' has no development server")
    return server


def _way(text: str | None) -> Way | None:
    return None if text is None else way_named(text, "--with")


@contextmanager
def _progress() -> Iterator[Progress]:
    """On a terminal a spinner with the last step, else a line for each kind of step; on the standard error."""
    console = Screen(stderr=True)
    if console.is_terminal:
        with console.status("starting") as spinner:
            yield lambda text: spinner.update(as_text(text))
        return
    told: set[str] = set()

    def tell(text: str) -> None:
        kind = text.partition(" (")[0]
        if kind not in told:
            told.add(kind)
            console.print(f"{kind} …", soft_wrap=True, markup=False)

    yield tell


def _what(record: Record) -> str:
    if record.process is not None:
        return f"process {record.process.pid}"
    return f"container {(record.container or '')[:12]}"


def _found_fields(server: DevServer, found: Found) -> dict[str, Any]:
    record = found.record
    return {
        "name": server.name,
        "address": found.address,
        "variable": server.environment_variable,
        "way": found.way,
        "started": found.started,
        "pid": record.process.pid if record and record.process else None,
        "container": record.container if record else None,
        "since": record.since if record else None,
    }


def _print_found(server: DevServer, found: Found, seconds: float) -> None:
    console = Screen(soft_wrap=True)
    if found.ended is not None:
        console.print(f"[yellow]![/] {_what(found.ended)}, started {found.ended.since}, had ended without us")
    if found.record is None:
        how = f"as {server.environment_variable} says; nothing was started"
    elif found.started:
        how = f"{_what(found.record)}, started in {seconds:.1f} s"
    else:
        how = f"{_what(found.record)}, running since {found.record.since}"
    console.print(f"[green]✓[/] {server.title} answers at [bold]{as_text(found.address)}[/]  [dim]({as_text(how)})[/]")
    console.print()
    console.print(f"  export {server.environment_variable}={found.address}", markup=False)
    if server.usage(found.address):
        console.print(f"  {server.usage(found.address)}", markup=False)
    if found.record is not None:
        console.print(f"\n[dim]End it and delete its data with:[/] penstock dev down {server.name}")


def _status_fields(one: Status) -> dict[str, Any]:
    record = one.record
    return {
        "name": record.name,
        "title": record.title,
        "running": one.running,
        "address": record.address,
        "way": record.way,
        "pid": record.process.pid if record.process else None,
        "container": record.container,
        "since": record.since,
        "memory_bytes": one.memory_bytes,
        "log": one.log,
    }


def _print_status(found: list[Status]) -> None:
    console = Screen()
    table = Table(box=SIMPLE_HEAD)
    for name in ("server", "address", "as", "since", "memory"):
        # What is too wide for the screen continues in the next line: a number that is cut is of no use.
        table.add_column(name, no_wrap=name in ("server", "address"), overflow="fold")
    for one in found:
        mark = "[green]✓[/]" if one.running else "[red]✗[/]"
        memory = "–" if one.memory_bytes is None else human_bytes(one.memory_bytes)
        server = f"{mark} [bold cyan]{as_text(one.record.name)}[/]"
        table.add_row(server, as_text(one.record.address), as_text(_what(one.record)), _ago(one.record.since), memory)
    console.print(table)
    ended = [one for one in found if not one.running]
    for one in ended:
        name = one.record.name
        where = f"its log is {one.log}; " if one.log else ""
        text = f"✗ {name} has ended without us: {where}'penstock dev up {name}' starts it again on its data"
        console.print(text, soft_wrap=True, markup=False)


def _ago(since: str) -> str:
    seconds = (datetime.now(timezone.utc) - datetime.fromisoformat(since)).total_seconds()
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return f"{plural(int(seconds // size), unit)} ago"
    return f"{plural(max(0, int(seconds)), 'second')} ago"
