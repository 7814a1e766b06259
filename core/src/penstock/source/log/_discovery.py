"""Looking for what is there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.source.log._contracts import LogClient
from penstock.source.log._positions import LogPartition

__all__ = ["Discovery", "discover"]


@dataclass(frozen=True)
class Discovery:
    """What was there at one moment: streams with their incarnations, partitions with their earliest positions.

    ``asked_at`` (monotonic seconds) is when the look began: of two, the younger one is right.
    """

    incarnations: Mapping[str, str]
    earliest: Mapping[LogPartition, int]
    asked_at: float


def discover(client: LogClient) -> Discovery:
    """Asks the system. Runs in a background thread, or on the driver's main thread before an available-now run."""
    asked_at = time.monotonic()
    streams = client.list_partitions()
    every = (LogPartition(stream, number) for stream, (_, count) in streams.items() for number in range(count))
    partitions = [partition for partition in every if client.selects(partition)]
    incarnations = {stream: incarnation for stream, (incarnation, _) in streams.items() if incarnation}
    return Discovery(incarnations, client.earliest(partitions), asked_at)
