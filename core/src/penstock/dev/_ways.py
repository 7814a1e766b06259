"""The three ways to a server, in the order in which they are tried: an address, a container, a local process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from penstock.dev._container import container_is_running, remove_container, run_container, why_no_container
from penstock.dev._contracts import DevServer, Progress
from penstock.dev._local import LocalServer, await_answer
from penstock.dev._ports import free_ports
from penstock.errors import BadConfigurationError, FatalError, RetriableError

__all__ = [
    "WAYS",
    "Way",
    "await_container",
    "choose_way",
    "given_address",
    "open_server",
    "started_container",
    "way_named",
]

#: How a server is had: one that is there, in a container, as a process of its own.
Way = Literal["address", "container", "process"]

WAYS: tuple[Way, ...] = ("address", "container", "process")

_CHECK_SECONDS = 5.0
_TEST_WITH = "PENSTOCK_TEST_WITH"


def choose_way(server: DevServer, wanted: Way | None = None) -> Way:
    """Returns how to get the server here: as ``wanted``, or the first possible way. Raises BadConfigurationError."""
    if wanted == "process" or (wanted == "address" and os.environ.get(server.environment_variable)):
        return wanted
    if wanted == "address":
        raise BadConfigurationError(
            f"{server.environment_variable} is not set: set it to the address of {server.title}"
        )
    if wanted is None and os.environ.get(server.environment_variable):
        return "address"
    problem = why_no_container(server, _CHECK_SECONDS * 2 if wanted == "container" else 1)
    if wanted == "container" and problem:
        raise BadConfigurationError(f"{server.title} can't run as a container: {problem}")
    return "process" if problem else "container"


def way_named(text: str, where: str) -> Way:
    """Returns the way called ``text``. Raises BadConfigurationError, which names ``where`` it was given."""
    for way in WAYS:
        if way == text:
            return way
    raise BadConfigurationError(f"{where} {text}: it is one of {', '.join(WAYS)}")


def _way_of_tests() -> Way | None:
    given = os.environ.get(_TEST_WITH)
    return way_named(given, _TEST_WITH) if given else None


def given_address(server: DevServer) -> str:
    """Returns the address from the environment, if a server answers there. Raises BadConfigurationError if not."""
    address = os.environ[server.environment_variable]
    try:
        server.check(address, _CHECK_SECONDS)
    except RetriableError as error:
        raise BadConfigurationError(
            f"{server.environment_variable} is set, but {error}: start {server.title} there, correct the variable, or "
            "unset it to have a server started"
        ) from error
    return address


@contextmanager
def open_server(server: DevServer, folder: Path | str, way: Way | None = None) -> Iterator[str]:
    """The address of a server for the time of a ``with`` block; for a test run's own or a given one.

    What is started keeps its data in ``folder`` (the caller's to delete) and is killed at the end; a server given by
    the environment variable is left as it is. Without ``way``, the environment variable PENSTOCK_TEST_WITH decides, and
    then what this machine has. Raises as :func:`choose_way` and :class:`LocalServer` do.
    """
    chosen = choose_way(server, way or _way_of_tests())
    if chosen == "address":
        yield given_address(server)
    elif chosen == "process":
        with LocalServer(server, folder) as local:
            yield local.address
    else:
        (port,) = free_ports(1)
        container = started_container(server, port)
        try:
            await_container(server, port, container)
            yield server.address(port)
        finally:
            remove_container(container)


def started_container(server: DevServer, port: int, progress: Progress | None = None) -> str:
    """Starts the container and returns its id; it does not answer yet."""
    image = server.container(port)
    if image is None:
        raise BadConfigurationError(f"there is no container image for {server.title}")
    if progress is not None:
        progress(f"starting a container of {image.image} (the first time, it is pulled)")
    return run_container(image, port)


def await_container(server: DevServer, port: int, container: str) -> None:
    """Waits until the server in the container answers. Raises FatalError if it ended or takes too long."""

    def complain_if_ended() -> None:
        if not container_is_running(container):
            raise FatalError(
                f"the container of {server.title} ended while it was starting: docker logs {container[:12]}"
            )

    await_answer(server, server.address(port), complain_if_ended)
