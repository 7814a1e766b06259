"""Local times as points in time: columns as single values, in zones with odd rules, and in any year."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.serialization.values import TimeParser
from penstock.serialization.values._calendar import days_since_1970, micros_since_1970, near_year
from penstock.serialization.values._local_times import LocalTimes
from penstock.serialization.values._zones import zone_of

#: Half an hour of summer time, quarters of an hour, changes at midnight, a day that is missing, summer time in winter.
ZONES = [
    "Europe/Rome",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "Pacific/Apia",
]
ZONES += ["Europe/Dublin", "Africa/Casablanca", "Etc/GMT-14", "America/St_Johns"]
NAIVE, UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")


def changes(zone, year):
    """Local times close to the changes of a year, found hour by hour."""
    hours = [datetime(year, 1, 1) + timedelta(hours=n) for n in range(366 * 24)]
    offsets = [hour.replace(tzinfo=zone).utcoffset() for hour in hours]
    steps = [hour for hour, one, other in zip(hours, offsets, offsets[1:], strict=False) if one != other]
    return [hour + timedelta(minutes=minutes) for hour in steps for minutes in range(-120, 180, 10)]


@pytest.mark.parametrize("name", ZONES)
def test_a_column_is_what_its_values_are(name):
    zone = ZoneInfo(name)
    special = [one for year in (1883, 1999, 2011, 2024, 2037, 2038, 2050) for one in changes(zone, year)]
    special += [
        datetime.min,
        datetime.min + timedelta(days=1),
        datetime.max,
        datetime(9999, 7, 1),
        datetime(1970, 1, 1),
    ]
    times = pickle.loads(pickle.dumps(LocalTimes(zone)))
    for _ in range(2):  # the second time, days are known
        found = times.to_utc(pa.array([None, *special, None], NAIVE))
        wanted = [None, *(micros_since_1970(one, zone) for one in special), None]
        assert found.type == UTC and found.cast(pa.int64()).to_pylist() == wanted

    @settings(max_examples=50)
    @given(st.lists(st.none() | st.datetimes(), max_size=20))
    def holds(some):
        wanted = [None if one is None else micros_since_1970(one, zone) for one in some]
        assert times.to_utc(pa.array(some, NAIVE)).cast(pa.int64()).to_pylist() == wanted

    holds()


def test_memory_of_days_is_bounded(monkeypatch):
    monkeypatch.setattr("penstock.serialization.values._local_times._MOST_DAYS", 100)
    times = LocalTimes(ZoneInfo("Europe/Rome"))
    for start in range(0, 2000, 50):
        times.to_utc(pa.array([datetime(2000, 1, 1) + timedelta(days=start + n) for n in range(50)], NAIVE))
        assert len(times._offsets) <= 150


@given(st.integers(-1_000_000, 1_000_000), st.integers(1, 12), st.integers(1, 28))
def test_any_year(year, month, day):
    near, cycles = near_year(year)
    assert 1 <= near <= 9999 and near + 400 * cycles == year and (cycles == 0) == (1 <= year <= 9999)
    days = days_since_1970(datetime(near, month, day), cycles)
    next_year, next_cycles = near_year(year + 400)
    assert days_since_1970(datetime(next_year, month, day), next_cycles) - days == 146_097
    assert micros_since_1970(datetime(near, month, day), cycles=cycles) == days * 86_400_000_000


@pytest.mark.parametrize(
    "text", ["right/UTC", "localtime", "posixrules", "../UTC", "/etc/UTC", "Europe", "A/../UTC", "+1:60", "+1:00:60"]
)
def test_what_is_no_zone(text):
    with pytest.raises(ValueError, match=r"not a time zone|not an offset"):
        zone_of(text)


def test_units_of_columns():
    text, micros = "2020-01-02T03:04:05.123456+05:41:16", 1_577_913_769_123_456
    parser = TimeParser("UTC")
    counts = {"s": micros // 1_000_000, "ms": micros // 1000, "us": micros, "ns": micros * 1000}
    for unit, count in counts.items():
        assert parser.timestamp(text, pa.timestamp(unit, "UTC")) == count
    with pytest.raises(ValueError, match="too far"):
        parser.timestamp("9999-12-31", pa.timestamp("ns", "UTC"))
    with pytest.raises(ValueError, match="too far"):
        parser.timestamp("294247-01-11", UTC)
    with pytest.raises(ValueError, match="names a zone"):
        parser.timestamp(text, NAIVE)
