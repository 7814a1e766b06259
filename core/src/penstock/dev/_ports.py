"""Free ports of the loopback address."""

from __future__ import annotations

import itertools
import os
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack

from penstock.errors import BadConfigurationError, FatalError

__all__ = ["LOOPBACK", "free_ports"]

LOOPBACK = "127.0.0.1"
#: Below the ports that systems give to outgoing connections (Linux from 32768, macOS from 49152): a client that tries
#: to reach a server which is down for a moment could otherwise take the server's own port.
_RANGE = range(15_000, 32_000)
#: Every process takes from one of so many parts of the range, by its number: two that start servers at the same time,
#: some of which take their port only after seconds, do not choose the same.
_PARTS = 100
_turn = itertools.count(random.randrange(len(_RANGE)))


def free_ports(count: int, first: int | None = None) -> tuple[int, ...]:
    """``count`` different ports that nobody listens on; ``first``, if given, is the first of them.

    Nothing is reserved: take them soon. Raises BadConfigurationError if ``first`` is taken.
    """
    ports: list[int] = []
    with ExitStack() as held:
        if first is not None:
            if not _hold(first, held, reuse=True):
                raise BadConfigurationError(f"port {first} of {LOOPBACK} is in use: choose another, or leave it out")
            ports.append(first)
        for port in _candidates():
            if len(ports) == count:
                return tuple(ports)
            if _hold(port, held, reuse=False):
                ports.append(port)
    raise FatalError(f"found no {count} free ports of {LOOPBACK} from {_RANGE.start} to {_RANGE.stop}")


def _candidates() -> Iterator[int]:
    """Those of this process, the next ones first, then the others."""
    part, parts = os.getpid() % _PARTS, [_RANGE[number::_PARTS] for number in range(_PARTS)]
    for ports in (*parts[part:], *parts[:part]):
        for _ in ports:
            yield ports[next(_turn) % len(ports)]


def _hold(port: int, held: ExitStack, *, reuse: bool) -> bool:
    """``reuse``: connections of an earlier server that wait for their end are no obstacle, as for most servers."""
    probe = held.enter_context(socket.socket())
    if reuse:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((LOOPBACK, port))
        probe.listen(1)
    except OSError:
        return False
    return True
