"""Free ports of the loopback address."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

from penstock.errors import BadConfigurationError, FatalError

__all__ = ["LOOPBACK", "free_ports"]

LOOPBACK = "127.0.0.1"
#: Below the ports that systems give to outgoing connections (Linux from 32768, macOS from 49152): a client that tries
#: to reach a server which is down for a moment could otherwise take the server's own port.
_RANGE = range(15_000, 32_000)


def free_ports(count: int, first: int | None = None) -> tuple[int, ...]:
    """``count`` different ports that nobody listens on; ``first``, if given, is the first of them.

    Nothing is reserved: take them soon. Raises BadConfigurationError if ``first`` is taken.
    """
    ports: list[int] = []
    with ExitStack() as held:
        if first is not None:
            if not _hold(first, held):
                raise BadConfigurationError(f"port {first} of {LOOPBACK} is in use: choose another, or leave it out")
            ports.append(first)
        for port in random.sample(_RANGE, 1000):
            if len(ports) == count:
                return tuple(ports)
            if _hold(port, held):
                ports.append(port)
    raise FatalError(f"found no {count} free ports of {LOOPBACK} from {_RANGE.start} to {_RANGE.stop}")


def _hold(port: int, held: ExitStack) -> bool:
    probe = held.enter_context(socket.socket())
    # As servers do: connections of an earlier server that wait for their end are no obstacle.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((LOOPBACK, port))
        probe.listen(1)
    except OSError:
        return False
    return True
