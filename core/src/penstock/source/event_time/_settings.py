"""The options of event time, the same for every source that has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionValues, load_object, names_object, when
from penstock.source.event_time._assigners import ColumnTimestamps, TimestampAssigner
from penstock.source.event_time._strategies import BoundedOutOfOrderness, Monotonic, Punctuated, WatermarkStrategy

__all__ = ["EventTimeSettings", "event_time_options"]


#: Event times are looked at to keep partitions together.
_ALIGNED = (when("watermark.alignment.maxDrift"),)


def event_time_options(timestamps: str | None, *, also: str = "") -> tuple[Option, ...]:
    """Returns the options, for a source whose records have their time in the column ``timestamps``, or no time of their
    own.

    ``also``: what else the source takes for watermark.timestamps, "value: what it means".
    """
    return (
        Option(
            "watermark.alignment.maxDrift",
            "No partition is read further than this, in event time, ahead of the slowest one; unset, all are read as "
            "they come",
            kind="duration",
            minimum=1,
            only_in="stream",
        ),
        Option(
            "watermark.idleTimeout",
            "A partition without new records for this long does not hold back the others",
            kind="duration",
            default="1m",
            minimum=1,
            needs=_ALIGNED,
        ),
        Option(
            "watermark.timestamps",
            "Where a record's event time is: a column (timestamp, date, or ms since the epoch), a field of one "
            "(value.at), or module:Class of a TimestampAssigner" + (also and f"; {also}"),
            default=timestamps,
            needs=_ALIGNED,
            required_with=() if timestamps else _ALIGNED,
        ),
        Option(
            "watermark.strategy",
            "What a partition's watermark is: monotonic (its latest time), bounded (less watermark.outOfOrderness), "
            "punctuated (the latest time of a record marked by watermark.punctuation), or module:Class of a "
            "WatermarkStrategy",
            default="monotonic",
            needs=_ALIGNED,
        ),
        Option(
            "watermark.outOfOrderness",
            "How much earlier than one before it a record of a partition may be",
            kind="duration",
            needs=(*_ALIGNED, when("watermark.strategy", "bounded")),
            required_with=(when("watermark.strategy", "bounded"),),
        ),
        Option(
            "watermark.punctuation",
            "The column, or field of one, that is true (or not null) in records after which nothing earlier follows",
            needs=(*_ALIGNED, when("watermark.strategy", "punctuated")),
            required_with=(when("watermark.strategy", "punctuated"),),
        ),
    )


@dataclass(frozen=True)
class EventTimeSettings:
    """How event time is determined, and how far partitions may be apart in it."""

    max_drift_ms: int
    idle_timeout_ms: int
    assigner: TimestampAssigner
    strategy: WatermarkStrategy

    @classmethod
    def from_values(cls, values: OptionValues) -> EventTimeSettings | None:
        """Returns the settings of ``values``; ``None`` if partitions are not to be aligned. Raises
        BadConfigurationError.
        """
        max_drift = values["watermark.alignment.maxDrift"]
        if max_drift is None:
            return None
        strategy = _strategy(values)
        option = "option 'watermark.timestamps'"
        where = values["watermark.timestamps"].strip()
        assigner = _own(option, where) if names_object(where) else ColumnTimestamps(where)
        if not isinstance(assigner, TimestampAssigner):
            raise BadConfigurationError(f"{option}: {where} is not a TimestampAssigner")
        return cls(max_drift, values["watermark.idleTimeout"], assigner, strategy)

    def check(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError if records of ``schema`` don't tell times and watermarks."""
        self.assigner.check(schema)
        self.strategy.check(schema)


def _strategy(values: OptionValues) -> WatermarkStrategy:
    name = values["watermark.strategy"].strip()
    if names_object(name):
        strategy = _own("option 'watermark.strategy'", name)
        if not isinstance(strategy, WatermarkStrategy):
            raise BadConfigurationError(f"option 'watermark.strategy': {name} is not a WatermarkStrategy")
        return strategy
    known: dict[str, WatermarkStrategy] = {
        "monotonic": Monotonic(),
        "bounded": BoundedOutOfOrderness(values["watermark.outOfOrderness"] or 0),
        "punctuated": Punctuated(values["watermark.punctuation"] or ""),
    }
    if name.lower() not in known:
        raise BadConfigurationError(
            f"option 'watermark.strategy': {name!r} is not one of {', '.join(known)}, nor module:Class"
        )
    return known[name.lower()]


def _own(option: str, reference: str) -> Any:
    """Returns the user's own: made without arguments."""
    found = load_object(option, reference)
    try:
        return found() if callable(found) else found
    except TypeError as error:
        raise BadConfigurationError(f"{option}: {reference} can't be made without arguments: {error}") from None
