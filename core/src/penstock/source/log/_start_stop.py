"""Positions as words turned into positions as numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock.errors import BadConfigurationError
from penstock.source.log._contracts import LogClient
from penstock.source.log._positions import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    Earliest,
    GroupOffsets,
    Latest,
    LogPartition,
    SpecificOffsets,
    StartPosition,
    Timestamp,
)

__all__ = ["resolve"]


def resolve(
    client: LogClient, position: StartPosition, partitions: Collection[LogPartition], what: str
) -> dict[LogPartition, int]:
    """``position`` for each of ``partitions``. ``what`` says in errors what was being resolved ("start", "stop").

    Raises :class:`BadConfigurationError` where it names partitions that are not there, leaves some out, or has no
    answer for one (no record that young, nothing committed) and no fallback.
    """
    if isinstance(position, Earliest):
        return dict(client.earliest(partitions))
    if isinstance(position, Latest):
        return dict(client.latest(partitions))
    if isinstance(position, GroupOffsets):
        return _committed(client, position, partitions, what)
    if isinstance(position, SpecificOffsets):
        return _specific(client, position, partitions, what)
    if isinstance(position, Timestamp):
        return _at(client, dict.fromkeys(partitions, position.timestamp_ms), position.if_none, what)
    times = position.timestamps_ms
    _must_match(partitions, [p for p in partitions if p not in times], times, what)
    return _at(client, times, position.if_none, what)


def _at(client: LogClient, times: Mapping[LogPartition, int], if_none: str, what: str) -> dict[LogPartition, int]:
    found = client.at_timestamp(times)
    missing = sorted(p for p in times if found.get(p) is None)
    if missing and if_none == "error":
        raise BadConfigurationError(
            f"{what}: no record of {missing[0]} is at or after {times[missing[0]]} (ms since 1970). Give an earlier "
            "time, or let such partitions count as read to their end (startingOffsetsByTimestampStrategy=latest)"
        )
    return {**_known(found), **(client.latest(missing) if missing else {})}


def _committed(
    client: LogClient, position: GroupOffsets, partitions: Collection[LogPartition], what: str
) -> dict[LogPartition, int]:
    found = client.committed(position.group, partitions)
    missing = sorted(p for p in partitions if found.get(p) is None)
    if missing and position.fallback == "error":
        raise BadConfigurationError(
            f"{what}: the consumer group '{position.group}' has committed nothing for {missing[0]}; choose a fallback "
            "(groupOffsetsFallback: earliest, latest)"
        )
    ends = client.earliest if position.fallback == "earliest" else client.latest
    return {**_known(found), **(ends(missing) if missing else {})}


def _specific(
    client: LogClient, position: SpecificOffsets, partitions: Collection[LogPartition], what: str
) -> dict[LogPartition, int]:
    named = {p: position.of(p) for p in partitions}
    _must_match(partitions, [p for p, offset in named.items() if offset is None], position.offsets, what)
    return {
        **{p: offset for p, offset in named.items() if offset is not None and offset >= 0},
        **client.earliest([p for p, offset in named.items() if offset == EARLIEST_OFFSET]),
        **client.latest([p for p, offset in named.items() if offset == LATEST_OFFSET]),
    }


def _known(found: Mapping[LogPartition, int | None]) -> dict[LogPartition, int]:
    return {partition: offset for partition, offset in found.items() if offset is not None}


def _must_match(
    partitions: Collection[LogPartition], unnamed: list[LogPartition], names: Iterable[LogPartition], what: str
) -> None:
    if unnamed:
        raise BadConfigurationError(f"{what}: it must name every partition, and {unnamed[0]} is missing")
    strange = sorted(set(names) - set(partitions))
    if strange:
        raise BadConfigurationError(f"{what}: it names {strange[0]}, which does not exist or is not read")
