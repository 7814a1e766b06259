"""Positions as words turned into positions as numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.errors import BadConfigurationError
from penstock.source.log._contracts import LogClient, LogPartition
from penstock.source.log.positions import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    AtTimestamp,
    Committed,
    Earliest,
    Latest,
    Position,
    SpecificOffsets,
)

__all__ = ["resolve"]


def resolve(
    client: LogClient, position: Position, partitions: Collection[LogPartition], option: str
) -> dict[LogPartition, int]:
    """``position`` for each of ``partitions``. ``option`` says in errors what was being resolved ("start", "stop").

    Raises :class:`BadConfigurationError` where it names partitions that are not there, leaves some out, or has no
    answer for one (no record that young, nothing committed) and no fallback.
    """
    if isinstance(position, Earliest):
        return dict(client.earliest(partitions))
    if isinstance(position, Latest):
        return dict(client.latest(partitions))
    if isinstance(position, AtTimestamp):
        return _at_timestamp(client, position, partitions, option)
    if isinstance(position, Committed):
        return _committed(client, position, partitions, option)
    return _specific(client, position, partitions, option)


def _at_timestamp(
    client: LogClient, position: AtTimestamp, partitions: Collection[LogPartition], option: str
) -> dict[LogPartition, int]:
    times = {p: position.of(p.stream, p.partition) for p in partitions}
    _must_name_all(partitions, [p for p, time in times.items() if time is None], position.by_partition, option)
    found = client.at_timestamp({p: time for p, time in times.items() if time is not None})
    missing = [p for p in partitions if found.get(p) is None]
    if missing and position.on_missing == "error":
        raise BadConfigurationError(
            f"{option}: no record of {missing[0]} is as young as {times[missing[0]]} (ms since 1970). Give an earlier "
            "time, or let such partitions count as read to their end (startingOffsetsByTimestampStrategy=latest)"
        )
    latest = client.latest(missing) if missing else {}
    return {**{p: offset for p, offset in found.items() if offset is not None}, **latest}


def _committed(
    client: LogClient, position: Committed, partitions: Collection[LogPartition], option: str
) -> dict[LogPartition, int]:
    found = client.committed(partitions)
    missing = [p for p in partitions if found.get(p) is None]
    if missing and position.fallback == "error":
        raise BadConfigurationError(
            f"{option}: the consumer group has committed nothing for {missing[0]}; choose a fallback (earliest, latest)"
        )
    ends = client.earliest if position.fallback == "earliest" else client.latest
    return {**{p: offset for p, offset in found.items() if offset is not None}, **(ends(missing) if missing else {})}


def _specific(
    client: LogClient, position: SpecificOffsets, partitions: Collection[LogPartition], option: str
) -> dict[LogPartition, int]:
    named = {p: position.offsets.get((p.stream, p.partition)) for p in partitions}
    _must_name_all(partitions, [p for p, offset in named.items() if offset is None], position.offsets, option)
    exact = {p: offset for p, offset in named.items() if offset is not None and offset >= 0}
    ends = {
        **client.earliest([p for p, offset in named.items() if offset == EARLIEST_OFFSET]),
        **client.latest([p for p, offset in named.items() if offset == LATEST_OFFSET]),
    }
    return {**exact, **ends}


def _must_name_all(
    partitions: Collection[LogPartition],
    unnamed: list[LogPartition],
    names: Mapping[tuple[str, int], int],
    option: str,
) -> None:
    there = {(p.stream, p.partition) for p in partitions}
    strange = [f"{stream}-{number}" for stream, number in names if (stream, number) not in there]
    if unnamed:
        raise BadConfigurationError(f"{option}: it must name every partition, and {unnamed[0]} is missing")
    if strange:
        raise BadConfigurationError(f"{option}: it names {strange[0]}, which does not exist or is not read")
