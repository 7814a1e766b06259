"""Free ports of the loopback address."""

from __future__ import annotations

import fcntl
import json
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from penstock.dev._paths import cache_folder
from penstock.errors import BadConfigurationError, FatalError

__all__ = ["LOOPBACK", "free_ports"]

LOOPBACK = "127.0.0.1"
#: Below the ports that systems give to outgoing connections (Linux from 32768, macOS from 49152): a client that tries
#: to reach a server which is down for a moment could otherwise take the server's own port.
_RANGE = range(15_000, 32_000)
#: How long a port that was given stays reserved for its process: servers take theirs only after seconds.
_GIVEN_FOR_S = 120.0


def free_ports(count: int, first: int | None = None) -> tuple[int, ...]:
    """Returns ``count`` different ports on which no process listens; ``first``, if given, is the first of them.

    No other caller gets them within two minutes: take them soon. Raises BadConfigurationError if ``first`` is
    taken.
    """
    ports: list[int] = []
    with _given() as given, ExitStack() as held:
        if first is not None:
            if not _hold(first, held, reuse=True):
                raise BadConfigurationError(f"port {first} of {LOOPBACK} is in use: choose another, or leave it out")
            ports.append(first)
        for port in _candidates():
            if len(ports) == count:
                given.update(dict.fromkeys(ports, time.time()))
                return tuple(ports)
            if port not in given and _hold(port, held, reuse=False):
                ports.append(port)
    raise FatalError(f"found no {count} free ports of {LOOPBACK} from {_RANGE.start} to {_RANGE.stop}")


def _candidates() -> Iterator[int]:
    """Yields all of them, from any one on."""
    start = random.randrange(len(_RANGE))  # noqa: S311 - so that processes seldom meet
    yield from _RANGE[start:]
    yield from _RANGE[:start]


@contextmanager
def _given() -> Iterator[dict[int, float]]:
    """The ports that were given lately, and when; what is added is kept. One process at a time."""
    path = cache_folder() / "dev-ports.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text, now = file.read(), time.time()
        try:
            known = {int(port): float(at) for port, at in json.loads(text).items()}
        except (ValueError, AttributeError):
            known = {}  # new, or cut short by a full disk
        given = {port: at for port, at in known.items() if 0 <= now - at < _GIVEN_FOR_S}
        yield given
        file.truncate(0)
        file.write(json.dumps(given))


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
