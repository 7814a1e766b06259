"""Which time a record has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.source.event_time._columns import column_at, type_at

__all__ = ["ColumnTimestamps", "TimestampAssigner"]


class TimestampAssigner(ABC):
    """Gives records their event times. Made and called on the driver, with a few records of each split at a time."""

    def check(self, schema: pa.Schema) -> None:  # noqa: B027
        """Raises BadConfigurationError if records of ``schema``, the source's columns, can't be given times."""

    @abstractmethod
    def timestamps(self, records: pa.RecordBatch) -> pa.Array:
        """Returns the time of each record as int64, in ms since the epoch; null for a record without one."""


@dataclass(frozen=True)
class ColumnTimestamps(TimestampAssigner):
    """The times are in a column, or in a field of one (``value.at``): a timestamp, a date, or ms since the epoch."""

    path: str

    def check(self, schema: pa.Schema) -> None:
        found = type_at(schema, self.path, "watermark.timestamps")
        if not (pa.types.is_timestamp(found) or pa.types.is_date(found) or pa.types.is_int64(found)):
            raise BadConfigurationError(
                f"option 'watermark.timestamps': column '{self.path}' is {found}, not a timestamp, a date or a long "
                "(ms since the epoch)"
            )

    def timestamps(self, records: pa.RecordBatch) -> pa.Array:
        column = column_at(records, self.path)
        if pa.types.is_int64(column.type):
            return column
        return column.cast(pa.timestamp("ms", getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
