"""Stored forms of the log template: JSON, so that a checkpoint can be read without Penstock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.serialization import JsonSerializer
from penstock.source.log._contracts import LogSplit, LogState
from penstock.source.log._positions import LogPartition

__all__ = ["SPLIT_SERIALIZER", "STATE_SERIALIZER", "positions_by_stream"]


def positions_by_stream(positions: Mapping[LogPartition, int]) -> dict[str, dict[str, int]]:
    """``{stream: {partition: position}}``, in order: the form that Spark's Kafka source uses as well."""
    nested: dict[str, dict[str, int]] = {}
    for partition in sorted(positions):
        nested.setdefault(partition.stream, {})[str(partition.partition)] = positions[partition]
    return nested


def _flat(nested: Mapping[str, Mapping[str, int]]) -> dict[LogPartition, int]:
    return {LogPartition(s, int(number)): position for s, ps in nested.items() for number, position in ps.items()}


def _state_fields(state: LogState) -> dict[str, Any]:
    fields: dict[str, Any] = {"positions": positions_by_stream(state.positions), "ids": dict(state.incarnations)}
    if state.stops is not None:
        fields["stops"] = positions_by_stream(state.stops)
    if state.gone:
        fields["gone"] = positions_by_stream(state.gone)
    return fields


def _state(version: int, fields: dict[str, Any]) -> LogState:
    stops = fields.get("stops")
    return LogState(
        positions=_flat(fields["positions"]),
        incarnations=fields["ids"],
        stops=None if stops is None else _flat(stops),
        gone=_flat(fields.get("gone", {})),
    )


#: ``{"positions": {stream: {partition: position}}, "ids": {stream: id}, "stops": {…}, "gone": {…}}``; the last two only
#: if there are any.
STATE_SERIALIZER: JsonSerializer[LogState] = JsonSerializer(1, _state_fields, _state)


def _split_fields(split: LogSplit) -> list[Any]:
    return [split.stream, split.partition, split.start, split.end, split.incarnation]


#: ``[stream, partition, start, end, id of the stream]``; version 1 had no id.
SPLIT_SERIALIZER: JsonSerializer[LogSplit] = JsonSerializer(2, _split_fields, lambda version, fields: LogSplit(*fields))
