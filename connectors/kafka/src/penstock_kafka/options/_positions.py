"""The start and stop options, parsed with Spark's precedence: one timestamp, timestamps by partition, offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues
from penstock.serialization import shortened
from penstock.source.log import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    Earliest,
    GroupOffsets,
    Latest,
    LogPartition,
    SpecificOffsets,
    StartPosition,
    StopPosition,
    Timestamp,
    TimestampsByPartition,
)

__all__ = ["check_batch_start", "check_order", "parse_assignment", "parse_start", "parse_stop"]

_OFFSETS = 'JSON such as {"topicA": {"0": 23, "1": -1}}'
_WORDS = {"earliest": EARLIEST_OFFSET, "latest": LATEST_OFFSET}


def parse_start(values: OptionValues, group: str | None) -> StartPosition | None:
    """Returns where to start; ``None`` if no option says so. ``group`` is whose offsets ``group-offsets`` means.

    Raises BadConfigurationError.
    """
    if_none = values["startingOffsetsByTimestampStrategy"]
    if (timestamp := values["startingTimestamp"]) is not None:
        return Timestamp(timestamp, if_none)
    if (text := values["startingOffsetsByTimestamp"]) is not None:
        return TimestampsByPartition(_timestamps("startingOffsetsByTimestamp", text), if_none)
    if (text := values["startingOffsets"]) is None:
        return None
    if text in _WORDS:
        return Earliest() if text == "earliest" else Latest()
    if text != "group-offsets":
        return _specific("startingOffsets", text, f"earliest, latest, group-offsets or {_OFFSETS}")
    if not group:
        raise BadConfigurationError(
            "option 'startingOffsets': group-offsets needs a consumer group: set 'kafka.group.id', or "
            "'commitGroupOffsets' to continue where an earlier query committed"
        )
    return GroupOffsets(group, values["groupOffsetsFallback"])


def parse_stop(values: OptionValues) -> StopPosition | None:
    """Returns where to stop; ``None`` if no option says so. Raises BadConfigurationError, also for a stop at the
    earliest.
    """
    if (timestamp := values["endingTimestamp"]) is not None:
        return Timestamp(timestamp)
    if (text := values["endingOffsetsByTimestamp"]) is not None:
        return TimestampsByPartition(_timestamps("endingOffsetsByTimestamp", text))
    if (text := values["endingOffsets"]) is None:
        return None
    if text == "latest":
        return Latest()
    if text.strip().lower() == "earliest":
        raise BadConfigurationError("option 'endingOffsets': earliest would read nothing; write latest or offsets")
    stop = _specific("endingOffsets", text, f"latest or {_OFFSETS}")
    _refuse_offset("endingOffsets", stop, EARLIEST_OFFSET, "-2 (earliest) would read nothing; write -1 or an offset")
    return stop


def check_batch_start(start: StartPosition) -> None:
    """Raises BadConfigurationError for a batch that would start at the latest offset, and so read nothing."""
    if isinstance(start, Latest):
        raise BadConfigurationError(
            "option 'startingOffsets': latest would read nothing in a batch; write earliest, offsets or a starting time"
        )
    if isinstance(start, SpecificOffsets):
        advice = "-1 (latest) would read nothing in a batch; write -2 or an offset"
        _refuse_offset("startingOffsets", start, LATEST_OFFSET, advice)


def _refuse_offset(option: str, position: SpecificOffsets, refused: int, advice: str) -> None:
    for partition, offset in position.offsets.items():
        if offset == refused:
            raise _wrong_number(option, partition, advice)
    for topic, offset in position.streams.items():
        if offset == refused:
            raise BadConfigurationError(f"option '{option}': topic '{topic}': {advice}")


def check_order(start: StartPosition | None, stop: StopPosition | None) -> None:
    """Raises BadConfigurationError if start and stop name different partitions, or a stop comes before its start."""
    if isinstance(start, SpecificOffsets) and isinstance(stop, SpecificOffsets):
        whole = {*start.streams, *stop.streams}
        _check_order("Offsets", _without(start.offsets, whole), _without(stop.offsets, whole))
    elif isinstance(start, TimestampsByPartition) and isinstance(stop, TimestampsByPartition):
        _check_order("OffsetsByTimestamp", start.timestamps_ms, stop.timestamps_ms)
    elif isinstance(start, Timestamp) and isinstance(stop, Timestamp) and start.timestamp_ms > stop.timestamp_ms:
        raise BadConfigurationError(
            f"option 'startingTimestamp' ({start.timestamp_ms}) is after endingTimestamp ({stop.timestamp_ms})"
        )


def _without(offsets: Mapping[LogPartition, int], topics: set[str]) -> dict[LogPartition, int]:
    """Returns the partitions of other topics: one of the ends of a whole topic can't be compared."""
    return {partition: offset for partition, offset in offsets.items() if partition.stream not in topics}


def _check_order(name: str, start: Mapping[LogPartition, int], stop: Mapping[LogPartition, int]) -> None:
    for partition in sorted(start.keys() ^ stop.keys()):
        side = "starting" if partition in start else "ending"
        raise BadConfigurationError(
            f"options 'starting{name}' and 'ending{name}' must name the same partitions: topic '{partition.stream}' "
            f"partition {partition.partition} is in {side}{name} only"
        )
    for partition, first in sorted(start.items()):
        if 0 <= stop[partition] < first:
            raise _wrong_number(
                f"starting{name}", partition, f"{first} is after the end, {stop[partition]} in ending{name}"
            )


def parse_assignment(text: str) -> frozenset[LogPartition]:
    """Option ``assign``: ``{"topic": [0, 1]}``. Raises BadConfigurationError."""
    found = set()
    for topic, partitions in _object("assign", text, 'JSON such as {"topicA": [0, 1], "topicB": [2]}').items():
        if not isinstance(partitions, list):
            raise BadConfigurationError(f"option 'assign': topic '{topic}' needs a list of partitions, as in [0, 1]")
        found |= {LogPartition(topic, _partition("assign", topic, partition)) for partition in partitions}
    if not found:
        raise BadConfigurationError("option 'assign' names no partition; write for example {\"topicA\": [0, 1]}")
    return frozenset(found)


def _specific(option: str, text: str, expected: str) -> SpecificOffsets:
    listed = _object(option, text, expected)
    streams = {topic: _WORDS[said.lower()] for topic, said in listed.items() if str(said).lower() in _WORDS}
    found = _numbers(option, {topic: said for topic, said in listed.items() if topic not in streams})
    for partition, offset in found.items():
        if offset < EARLIEST_OFFSET:
            raise _wrong_number(
                option, partition, f"{offset} is no offset; write 0 or more, -2 (earliest), -1 (latest)"
            )
    return SpecificOffsets(found, streams)


def _timestamps(option: str, text: str) -> dict[LogPartition, int]:
    expected = 'JSON such as {"topicA": {"0": 1700000000000}} (milliseconds since the epoch)'
    found = _numbers(option, _object(option, text, expected))
    for partition, timestamp in found.items():
        if timestamp < 0:
            raise _wrong_number(option, partition, f"{timestamp} is no time; write milliseconds since the epoch")
    return found


def _numbers(option: str, listed: Mapping[str, Any]) -> dict[LogPartition, int]:
    found: dict[LogPartition, int] = {}
    for topic, numbers in listed.items():
        if not isinstance(numbers, dict) or not numbers:
            raise BadConfigurationError(f"option '{option}': topic '{topic}' needs partitions, as in {{\"0\": 23}}")
        for key, number in numbers.items():
            partition = LogPartition(topic, _partition(option, topic, key))
            if isinstance(number, bool) or not isinstance(number, int) or abs(number) >= 1 << 63:
                raise _wrong_number(option, partition, f"{json.dumps(number)} is no whole number")
            found[partition] = number
    return found


def _wrong_number(option: str, partition: LogPartition, advice: str) -> BadConfigurationError:
    return BadConfigurationError(
        f"option '{option}': topic '{partition.stream}' partition {partition.partition}: {advice}"
    )


def _partition(option: str, topic: str, key: Any) -> int:
    """Returns a partition's number, written as one or as a text."""
    digits = str(key)
    if isinstance(key, bool) or not (digits.isascii() and digits.isdigit()) or int(digits) >= 1 << 31:
        raise BadConfigurationError(f"option '{option}': topic '{topic}': {json.dumps(key)} is no partition number")
    return int(digits)


def _object(option: str, text: str, expected: str) -> dict[str, Any]:
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, dict) or not listed:
        raise BadConfigurationError(f"option '{option}': {shortened(text)!r} is not {expected}")
    return listed
