"""Columns of local times as points in time.

Arrow has a function for that. But it takes no rules from the zone's file, only the changes that are listed there: those
until 2037, or fewer. And a time that the clocks skipped it moves elsewhere than Spark does.
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization.values._calendar import day_of, micros_since_1970

__all__ = ["LocalTimes"]

_MICRO = timedelta(microseconds=1)
_END_OF_DAY = timedelta(days=1) - _MICRO
_DAY_MICROS = timedelta(days=1) // _MICRO
#: A little more than a century of days, for each zone that a task reads.
_MOST_DAYS = 50_000


class LocalTimes:
    """Converts times in ``zone``. Belongs to one thread.

    Asks Python for the offset of each day once. On the few days on which it changes, Python converts each row.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._offsets: dict[int, int | None] = {}

    def __reduce__(self) -> tuple[type[LocalTimes], tuple[tzinfo]]:
        return LocalTimes, (self._zone,)

    def to_utc(self, column: pa.Array) -> pa.Array:
        """Returns ``timestamp[us, UTC]`` of a column of ``timestamp[us]``.

        Raises pa.ArrowInvalid for a time that Python does not know: before the year 1.
        """
        days = pc.floor_temporal(column, unit="day").cast(pa.int64())
        different = pc.unique(days.drop_null())
        if len(self._offsets) > _MOST_DAYS:
            self._offsets.clear()
        try:
            offsets = pa.array([self._offset(one // _DAY_MICROS) for one in different.to_pylist()], pa.int64())
        except ValueError as error:
            raise pa.ArrowInvalid(str(error)) from None
        micros = pc.subtract(column.cast(pa.int64()), offsets.take(pc.index_in(days, different)))
        if micros.null_count > column.null_count:
            changing = pc.and_(column.is_valid(), micros.is_null())
            exact = [micros_since_1970(one, self._zone) for one in column.filter(changing).to_pylist()]
            micros = pc.replace_with_mask(micros, changing, pa.array(exact, pa.int64()))
        return micros.cast(pa.timestamp("us", "UTC"))

    def _offset(self, day: int) -> int | None:
        """Returns the microseconds from UTC on a day; ``None`` if they change."""
        if day not in self._offsets:
            start = day_of(day)
            at_start, at_end = (self._micros_from_utc(time) for time in (start, start + _END_OF_DAY))
            self._offsets[day] = at_start if at_start == at_end else None
        return self._offsets[day]

    def _micros_from_utc(self, time: datetime) -> int:
        return micros_since_1970(time) - micros_since_1970(time, self._zone)
