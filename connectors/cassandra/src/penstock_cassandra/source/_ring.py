"""The ring: partitioners, and who holds which tokens."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import BadConfigurationError
from penstock_cassandra.source._split import TokenRange

__all__ = ["Partitioner", "Ring", "partitioner_of"]


@dataclass(frozen=True)
class Partitioner:
    """Tokens are above ``lowest`` and at most ``highest``. ``pack`` makes a token's bytes, as the server wants them."""

    name: str
    lowest: int
    highest: int
    pack: Callable[[int], bytes]

    def cut(self, number: int, count: int) -> int:
        """Returns where piece ``number`` of ``count`` begins (exclusive); that of piece ``count`` is the end of all."""
        return self.lowest + (self.highest - self.lowest) * number // count


def _pack_big(token: int) -> bytes:
    return token.to_bytes((8 + (token + (token < 0)).bit_length()) // 8, "big", signed=True)


_KNOWN = {
    "Murmur3Partitioner": Partitioner(
        "Murmur3Partitioner", -(2**63), 2**63 - 1, lambda token: token.to_bytes(8, "big", signed=True)
    ),
    "RandomPartitioner": Partitioner("RandomPartitioner", -1, 2**127, _pack_big),
}


def partitioner_of(name: str) -> Partitioner:
    """By the server's class name. Raises BadConfigurationError for those whose tokens are no numbers."""
    short = name.rsplit(".", 1)[-1]
    if short not in _KNOWN:
        raise BadConfigurationError(
            f"the cluster's partitioner is {short}: its tokens can't be divided evenly, so its tables can't be split. "
            f"Known are {', '.join(_KNOWN)}"
        )
    return _KNOWN[short]


class Ring:
    """Who holds a keyspace's rows, as the driver sees it now."""

    def __init__(self, metadata: Any, keyspace: str) -> None:
        tokens = metadata.token_map
        self._ends: list[int] = []
        self._replicas: list[tuple[str, ...]] = []
        for token in tokens.ring if tokens is not None else ():
            self._ends.append(int(token.value))
            found = tokens.get_replicas(keyspace, token)
            self._replicas.append(tuple(str(host.endpoint) for host in found))

    def pieces(self, after: int, until: int) -> tuple[TokenRange, ...]:
        """Returns the range cut where replicas change; neighbours with the same ones stay together."""
        ranges: list[TokenRange] = []
        at = bisect.bisect_right(self._ends, after)
        while after < until:
            # A token belongs to the first node at or above it; above the last one, the ring begins again.
            end = min(until, self._ends[at]) if at < len(self._ends) else until
            replicas = self._replicas[at % len(self._replicas)] if self._replicas else ()
            if ranges and ranges[-1].replicas == replicas:
                ranges[-1] = TokenRange(ranges[-1].after, end, replicas)
            else:
                ranges.append(TokenRange(after, end, replicas))
            after, at = end, at + 1
        return tuple(ranges)
