"""What is handed out, what is remembered, and how both are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.serialization import JsonSerializer
from penstock_pravega.client import epoch_of, number_of, segment_name, short_name

__all__ = ["SPLIT_SERIALIZER", "STATE_SERIALIZER", "Cuts", "PravegaState", "SegmentRange"]

#: Stream (``scope/stream``) → segment id → offset.
Cuts = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class SegmentRange:
    """The events that begin at ``start`` up to ``end`` (exclusive) of one segment: always whole events."""

    stream: str
    segment: int
    start: int
    end: int

    @property
    def split_id(self) -> str:
        """See :class:`penstock.source.SourceSplit`."""
        return f"{segment_name(self.stream, self.segment)}@{self.start}"

    @property
    def size_bytes(self) -> int:
        """Exactly."""
        return self.end - self.start

    @property
    def group(self) -> str:
        """The segment."""
        return segment_name(self.stream, self.segment)

    def __str__(self) -> str:
        return f"{self.stream}/{short_name(self.segment)} from {self.start} to {self.end}"


@dataclass(frozen=True)
class PravegaState:
    """How far each stream has been handed out, as a stream cut: the source's offset.

    Size: a number for each segment of a cut. ``stops`` are the resolved ends of a bounded stream, so that a restart
    ends where the first run would have; ``None`` for an unbounded one.
    """

    cuts: Cuts = field(default_factory=dict)
    stops: Cuts | None = None


def _written(cuts: Cuts) -> dict[str, dict[str, int]]:
    return {
        stream: {f"{number_of(segment)}.{epoch_of(segment)}": offset for segment, offset in sorted(cut.items())}
        for stream, cut in sorted(cuts.items())
    }


def _read(fields: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    cuts: dict[str, dict[int, int]] = {}
    for stream, cut in fields.items():
        cuts[stream] = {}
        for name, offset in cut.items():
            number, _, epoch = name.partition(".")
            cuts[stream][int(epoch) << 32 | int(number)] = offset
    return cuts


def _state_fields(state: PravegaState) -> dict[str, Any]:
    fields: dict[str, Any] = {"cuts": _written(state.cuts)}
    if state.stops is not None:
        fields["stops"] = _written(state.stops)
    return fields


def _state(version: int, fields: dict[str, Any]) -> PravegaState:
    stops = fields.get("stops")
    return PravegaState(_read(fields["cuts"]), None if stops is None else _read(stops))


#: ``{"cuts": {stream: {"number.epoch": offset}}, "stops": {…}}``
STATE_SERIALIZER: JsonSerializer[PravegaState] = JsonSerializer(1, _state_fields, _state)

#: ``[stream, segment id, start, end]``
SPLIT_SERIALIZER: JsonSerializer[SegmentRange] = JsonSerializer(
    1,
    lambda split: [split.stream, split.segment, split.start, split.end],
    lambda version, fields: SegmentRange(*fields),
)
