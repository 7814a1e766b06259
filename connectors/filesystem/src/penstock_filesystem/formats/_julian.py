"""Days long ago that a file counts by the Julian calendar: as Spark 2 wrote them, and later ones in the mode LEGACY."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadDataError

__all__ = ["JulianDays"]

_PREFIX = "org.apache.spark."
_FIRST_GREGORIAN_DAY = date(1582, 10, 15)
#: Spark shifts times of other zones than UTC also between these two days, where local times followed the sun.
_FIRST_OF_CLOCKS = date(1900, 1, 1)
_UTC = ("UTC", "Etc/UTC", "Z", "GMT")
_EPOCH = date(1970, 1, 1)


class JulianDays:
    """Refuses values that Spark would shift by some days when it reads them, going by a file's metadata.

    ``has_int96``: whether times without a zone are points in time, which INT96 holds.
    """

    def __init__(self, metadata: Mapping[str, str], url: str, *, has_int96: bool = False) -> None:
        found = re.match(r"(\d+)\.(\d+)", metadata.get(f"{_PREFIX}version", ""))
        version = (int(found[1]), int(found[2])) if found else (3, 1)
        self._url = url
        self._days = version < (3, 0) or f"{_PREFIX}legacyDateTime" in metadata
        self._int96 = has_int96 and (version < (3, 1) or f"{_PREFIX}legacyINT96" in metadata)
        in_utc = metadata.get(f"{_PREFIX}timeZone") in _UTC
        self._first_time = _FIRST_GREGORIAN_DAY if in_utc else _FIRST_OF_CLOCKS

    def __bool__(self) -> bool:
        """Returns whether there is anything to look for."""
        return self._days or self._int96

    def check(self, column: pa.Array) -> None:
        """Raises BadDataError if a column holds such a value, also within lists, maps and structs."""
        for array in _leaves(column):
            type_ = array.type
            if pa.types.is_date(type_) and self._days:
                self._check_least(array.cast(pa.int32()), (_FIRST_GREGORIAN_DAY - _EPOCH).days)
            elif pa.types.is_timestamp(type_) and (self._int96 if type_.tz is None else self._days):
                micros = array.cast(pa.timestamp("us", type_.tz), safe=False).cast(pa.int64())
                self._check_least(micros, (self._first_time - _EPOCH) // timedelta(microseconds=1))

    def check_value(self, value: Any) -> None:
        """Raises BadDataError as :meth:`check`, for a value in Python."""
        if isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                self.check_value(item)
        elif isinstance(value, datetime):
            if value.tzinfo is not None and value.astimezone(timezone.utc).date() < self._first_time:
                self._refuse()
        elif isinstance(value, date) and value < _FIRST_GREGORIAN_DAY:
            self._refuse()

    def _check_least(self, numbers: pa.Array, first: int) -> None:
        least = pc.min(numbers).as_py()
        if least is not None and least < first:
            self._refuse()

    def _refuse(self) -> None:
        raise BadDataError(
            f"{self._url}: dates before 1582-10-15, and early timestamps, are counted by the Julian calendar, which is "
            "not read here: rewrite the file with Spark, with spark.sql.*.datetimeRebaseModeInWrite and "
            "int96RebaseModeInWrite set to CORRECTED"
        )


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    type_ = array.type
    if pa.types.is_struct(type_):
        children = array.flatten()
    elif pa.types.is_map(type_):
        children = [array.keys, array.items]
    elif pa.types.is_dictionary(type_):
        children = [array.dictionary]
    elif pa.types.is_nested(type_):
        children = [array.flatten()]
    else:
        yield array
        return
    for child in children:
        yield from _leaves(child)
