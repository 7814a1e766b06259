"""A server as a container of an engine on this machine, by testcontainers (``pip install testcontainers``)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from penstock.dev._contracts import ContainerImage, DevServer
from penstock.dev._ports import LOOPBACK
from penstock.errors import FatalError

__all__ = ["container_is_running", "remove_container", "run_container", "why_no_container"]

# Clients of engines raise errors of several libraries (docker, requests, urllib3): all are caught, and put in words.
#: An engine elsewhere would publish the port elsewhere.
_LOCAL_HOSTS = ("localhost", LOOPBACK, "::1")


def why_no_container(server: DevServer, timeout_s: float = 1) -> str:
    """Returns why the server can't be had as a container here; empty if it can. Takes ``timeout_s`` at most."""
    if server.container(1) is None:
        return f"there is no container image for {server.title}"
    if find_spec("testcontainers") is None:
        return "testcontainers is not installed (pip install testcontainers)"
    try:
        client = _client(timeout=timeout_s)
        client.client.ping()
        host = client.host()
    except Exception as error:
        return f"no container engine answers ({error})"
    return "" if host in _LOCAL_HOSTS else f"the container engine is on {host}, not on this machine"


def run_container(image: ContainerImage, port: int) -> str:
    """Starts a container (its image is pulled first if need be) and returns its id; ``port`` leads to it.

    It outlives this process: testcontainers' own clean-up takes no part. Raises FatalError.
    """
    try:
        container = _client().run(
            image.image,
            detach=True,
            environment=dict(image.environment),
            ports={f"{image.port}/tcp": (LOOPBACK, port)},
        )
    except Exception as error:
        raise FatalError(f"the container engine could not run {image.image}: {error}") from error
    return str(container.id)


def container_is_running(container_id: str) -> bool:
    """Returns whether it is there and runs. Raises FatalError if the engine does not say."""
    container = _find(container_id)
    return container is not None and container.status == "running"


def remove_container(container_id: str) -> None:
    """Ends it and deletes it with its data. Nothing happens if it is gone. Raises FatalError."""
    container = _find(container_id)
    if container is None:
        return
    try:
        container.remove(force=True, v=True)
    except Exception as error:
        raise FatalError(f"the container engine could not remove container {container_id[:12]}: {error}") from error


def _find(container_id: str) -> Any:
    from docker.errors import NotFound

    try:
        return _client().client.containers.get(container_id)
    except NotFound:
        return None
    except Exception as error:
        raise FatalError(f"the container engine can't be asked about container {container_id[:12]}: {error}") from error


def _client(**settings: Any) -> Any:
    from testcontainers.core.docker_client import DockerClient

    return DockerClient(**settings)
