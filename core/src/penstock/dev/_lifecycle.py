"""``up``, ``down`` and ``status`` of servers that outlive the process that started them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from penstock.dev._container import remove_container
from penstock.dev._contracts import DevServer, Progress
from penstock.dev._local import LocalServer
from penstock.dev._ports import free_ports
from penstock.dev._process import terminate
from penstock.dev._state import Record, StateFolder, state_folders
from penstock.dev._ways import Way, await_container, choose_way, given_address, started_container
from penstock.errors import BadConfigurationError, FatalError, RetriableError

__all__ = ["Found", "Status", "down", "status", "up"]

_CHECK_SECONDS = 5.0


@dataclass(frozen=True)
class Found:
    """A server that answers. ``record`` is ``None`` for one that the user gave by its address.

    ``ended`` is a server of before that was found dead, and in whose place ``record`` was started.
    """

    address: str
    way: Way
    started: bool
    record: Record | None = None
    ended: Record | None = None


@dataclass(frozen=True)
class Status:
    """A server that was started and how it is. ``memory_bytes`` is unknown for containers."""

    record: Record
    running: bool
    memory_bytes: int | None
    log: str | None


def up(
    server: DevServer, *, way: Way | None = None, port: int | None = None, progress: Progress | None = None
) -> Found:
    """Finds the server running, or starts one that outlives this process; returns when it answers.

    Data of an earlier one that was kept, or that was killed, is taken up again. Raises BadConfigurationError (what is
    asked for does not fit what runs; nothing to start it with), FatalError (it does not start, or does not answer).
    """
    if way == "address" or (way is None and os.environ.get(server.environment_variable)):
        choose_way(server, "address")
        if port is not None:
            raise BadConfigurationError(
                f"nothing is started, so there is no port to choose: {server.environment_variable} has the address"
            )
        return Found(given_address(server), "address", started=False)
    state = StateFolder(server.name)
    with state.locked():
        earlier = state.load()
        if earlier is not None and earlier.is_running():
            _check_fits(server, earlier, way, port)
            return Found(earlier.address, earlier.way, started=False, record=earlier)
        if earlier is not None and earlier.container is not None:
            remove_container(earlier.container)
        ports = _ports(server, port, earlier)
        chosen = choose_way(server, way)
        start = _start_container if chosen == "container" else _start_process
        return Found(server.address(ports[0]), chosen, True, start(server, state, ports, progress), earlier)


def down(name: str, *, keep_data: bool = False) -> Status | None:
    """Ends the server and deletes its data; ``None`` if there was none. What ``status`` would have said before.

    Only the very process that was started is ended, never another that has its id by now. Raises
    BadConfigurationError if the data of a container is to be kept: it is inside.
    """
    state = StateFolder(name)
    with state.locked():
        record = state.load()
        before = None if record is None else _status(state, record)
        if record is not None and record.container is not None:
            if keep_data:
                raise BadConfigurationError(
                    f"the data of {name} is in its container and goes with it: leave out --keep-data"
                )
            remove_container(record.container)
        if record is not None and record.process is not None:
            terminate(record.process, record.stop_seconds)
        state.forget()
        if not keep_data and state.data.exists():
            shutil.rmtree(state.data)
        return before


def status() -> list[Status]:
    """Returns every server that was started and not ended by :func:`down`, alive or not, by name."""
    return [_status(state, record) for state in state_folders() if (record := state.load()) is not None]


def _status(state: StateFolder, record: Record) -> Status:
    log = None if record.process is None else str(state.data / "server.log")
    return Status(record, record.is_running(), record.memory_bytes(), log)


def _check_fits(server: DevServer, running: Record, way: Way | None, port: int | None) -> None:
    runs = f"{server.name} runs already as a {running.way} on port {running.port}"
    if running.title != server.title:
        runs = f"{running.title} runs already on port {running.port}"
    if (way or running.way) != running.way or (port or running.port) != running.port or running.title != server.title:
        raise BadConfigurationError(f"{runs}: end it first with 'penstock dev down {server.name}'")
    try:
        server.check(running.address, _CHECK_SECONDS)
    except RetriableError as error:
        raise FatalError(f"{runs}, but {error}: 'penstock dev down {server.name}' ends it") from error


def _ports(server: DevServer, wanted: int | None, earlier: Record | None) -> tuple[int, ...]:
    """Free ports; in place of a server that died, its own, which a user's settings may still name."""
    if wanted is None and earlier is not None:
        try:
            return free_ports(server.port_count, earlier.port)
        except BadConfigurationError:
            return free_ports(server.port_count)
    return free_ports(server.port_count, wanted)


def _start_process(server: DevServer, state: StateFolder, ports: tuple[int, ...], progress: Progress | None) -> Record:
    local = LocalServer(server, state.data, ports=ports, outlive=True)
    process = local.launch(progress)
    # Before it answers: if we are killed while we wait, `down` knows what to end.
    record = replace(_record(server, ports[0], "process"), process=process)
    try:
        state.store(record)
        if progress is not None:
            progress(f"waiting for {server.title} to answer")
        local.await_ready()
    except BaseException:
        local.kill()
        state.forget()
        raise
    return record


def _start_container(
    server: DevServer, state: StateFolder, ports: tuple[int, ...], progress: Progress | None
) -> Record:
    container = started_container(server, ports[0], progress)
    record = replace(_record(server, ports[0], "container"), container=container)
    try:
        state.store(record)
        await_container(server, ports[0], container)
    except BaseException:
        remove_container(container)
        state.forget()
        raise
    return record


def _record(server: DevServer, port: int, way: Way) -> Record:
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Record(server.name, server.title, server.address(port), port, way, since, server.stop_seconds)
