"""What a split's watermark is: the time before which nothing more is expected of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.source.event_time._columns import column_at, type_at

__all__ = ["BoundedOutOfOrderness", "Monotonic", "Punctuated", "WatermarkStrategy"]


class WatermarkStrategy(ABC):
    """Turns records that follow each other in one split into its watermark. Made and called on the driver."""

    #: How much earlier than a record before it a record may be, in ms.
    out_of_orderness_ms: int = 0

    def check(self, schema: pa.Schema) -> None:  # noqa: B027
        """Raises BadConfigurationError if records of ``schema``, the source's columns, tell no watermark."""

    @abstractmethod
    def watermark(self, records: pa.RecordBatch, timestamps: pa.Array) -> int | None:
        """Returns the watermark after ``records``, whose times are ``timestamps`` (int64, ms since the epoch, may be
        null).

        ``None`` if they don't tell: then more records before them are looked at.
        """


@dataclass(frozen=True)
class Monotonic(WatermarkStrategy):
    """Times grow: the latest one."""

    def watermark(self, records: pa.RecordBatch, timestamps: pa.Array) -> int | None:
        return _latest(timestamps)


@dataclass(frozen=True)
class BoundedOutOfOrderness(WatermarkStrategy):
    """A record may be earlier than one before it by at most ``out_of_orderness_ms``: the latest time less that."""

    out_of_orderness_ms: int = 0

    def watermark(self, records: pa.RecordBatch, timestamps: pa.Array) -> int | None:
        latest = _latest(timestamps)
        return None if latest is None else latest - self.out_of_orderness_ms


@dataclass(frozen=True)
class Punctuated(WatermarkStrategy):
    """Some records say that nothing earlier follows: those where a column is true, or not null if it is no boolean."""

    path: str

    def check(self, schema: pa.Schema) -> None:
        type_at(schema, self.path, "watermark.punctuation")

    def watermark(self, records: pa.RecordBatch, timestamps: pa.Array) -> int | None:
        marks = column_at(records, self.path)
        told = pc.fill_null(marks, False) if pa.types.is_boolean(marks.type) else marks.is_valid()
        return _latest(timestamps.filter(told))


def _latest(timestamps: pa.Array) -> int | None:
    latest: int | None = pc.max(timestamps).as_py()
    return latest
