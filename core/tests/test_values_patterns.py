"""Java's date-time patterns: what is written is read again, columns as single values, and all of it as Spark does."""

from __future__ import annotations

import pickle
import string
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError
from penstock.serialization.values import TimeReader, TimeWriter
from penstock.serialization.values._calendar import micros_since_1970

YEARS = ["yyyy", "y"]
DAYS = ["M", "MM", "MMM", "MMMM"], ["d", "dd"]
TIMES = ["HH", "H"], ["mm", "m"], ["ss", "s"]
FRACTIONS = ["S" * digits for digits in range(1, 10)]
OFFSETS = ["X", "XX", "XXX", "x", "xx", "xxx", "Z"]
SEPARATORS = ["-", "/", ".", ":", " ", ", ", "'T'", "'o''clock'", "%", "''"]


@st.composite
def patterns(draw):
    """Patterns that name a point in time, in one of the orders that people write."""
    parts = [draw(st.sampled_from(YEARS)), *(draw(st.sampled_from(kind)) for kind in DAYS)]
    if draw(st.booleans()):
        parts = parts[::-1]
    if draw(st.integers(0, 5)) == 0:
        parts = [draw(st.sampled_from(YEARS)), draw(st.sampled_from(["D", "DDD"]))]
    if draw(st.booleans()):
        parts += [draw(st.sampled_from(kind)) for kind in TIMES]
        if draw(st.booleans()):
            parts.append(draw(st.sampled_from(FRACTIONS)))
    elif draw(st.booleans()):
        parts += [draw(st.sampled_from(["hh", "h"])), draw(st.sampled_from(["mm", "m"])), "a"]
    if draw(st.booleans()):
        parts.append(draw(st.sampled_from(OFFSETS)))
    separators = [draw(st.sampled_from(SEPARATORS)) for _ in parts[1:]]
    return "".join(part + separator for part, separator in zip(parts, [*separators, ""], strict=True))


# Not below year 1000: a year of one digit after y and no separator is Java's affair.
moments = st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))
EARLY = datetime(1969, 12, 31, 23, 59, 59, 500000)


def single(reader, text):
    return micros_since_1970(*reader.value(text))


def micros_of(column):
    return column.cast(pa.int64()).to_pylist()


def stamps(values, zone):
    return pa.array(values, pa.timestamp("us")).view(pa.timestamp("us", zone))


zones = st.sampled_from([None, "UTC", "Etc/GMT-5"])  # whose offsets never had seconds


@given(patterns(), st.lists(st.none() | moments, min_size=1, max_size=5), zones)
@example("yyyy-MM-dd HH:mm:ss", [EARLY], None)  # before 1970 a second is not cut toward zero
@settings(max_examples=300)
def test_what_is_written_is_read_again(pattern, values, zone):
    """To the last part that the pattern names, which writing what was read gives again."""
    writer, reader = TimeWriter("o", pattern), TimeReader("o", pattern)
    texts = writer.write(stamps(values, zone))
    assert texts.null_count == values.count(None)
    read = reader.column(texts)
    shown_in = zone if reader.has_zone else None
    again = read.cast(pa.timestamp("us", shown_in or "UTC")) if reader.has_zone else read
    assert writer.write(again) == texts
    assert [None if text is None else single(reader, text) for text in texts.to_pylist()] == micros_of(read)
    if "S" * 6 in pattern and zone != "Etc/GMT-5":
        assert read.to_pylist() == stamps(values, read.type.tz).to_pylist()


@st.composite
def spoiled(draw):
    """A pattern with texts of which some do not fit: a character is dropped, doubled, or another."""
    pattern = draw(patterns())
    texts = TimeWriter("o", pattern).write(stamps(draw(st.lists(moments, min_size=1, max_size=4)), "UTC")).to_pylist()
    at = draw(st.integers(0, len(texts[0]) - 1))
    other = draw(st.sampled_from(["", "0", "9", " ", "a", "+", "Z", "\n", "٣"]))
    texts[0] = texts[0][:at] + other + texts[0][at + draw(st.integers(0, 1)) :]
    return pattern, texts


@given(spoiled())
@example(("yyyy-MM-dd", ["2023-02-30"]))  # a day that the month has not
@example(("yyyy-MM-dd", ["24-01-01"]))
@example(("yyyy-MM-dd", ["0000-01-01"]))
@example(("yyyy-MM-dd HH:mm:ss", ["2023-01-01 00:00:60"]))
@example(("yyyy-MM-dd HH:mm", ["2023-01-01 24:00"]))
@example(("yyyy-MM-dd hh:mm a", ["2023-01-01 13:00 AM"]))
@example(("yyyy-MM-dd X", ["2023-01-01 +24"]))
@example(("yyyy-MM-dd XXX", ["2023-01-01 +01:60"]))
@example(("yyyy-MM-dd", ["2023-01-01\n"]))
@settings(max_examples=300)
def test_columns_and_single_values_are_read_alike(given):
    pattern, texts = given
    reader = TimeReader("o", pattern)

    def values():
        try:
            return [single(reader, text) for text in texts]
        except ValueError:
            return None

    def column():
        try:
            return micros_of(reader.column(pa.array(texts)))
        except pa.ArrowInvalid:
            return None

    assert column() == values()


def test_as_spark(spark):
    """Writing, and reading what fits and what does not: Spark is the judge."""
    from pyspark.sql import functions as sf

    spark.conf.set("spark.sql.session.timeZone", "UTC")
    cases = []

    @given(patterns(), moments, spoiled())
    @settings(max_examples=120, database=None)
    def collect(pattern, moment, other):
        cases.append((pattern, moment, TimeWriter("o", pattern).write(stamps([moment], "UTC"))[0].as_py()))
        cases.append((other[0], moment, other[1][0]))

    collect()
    rows = [(pattern, at.replace(tzinfo=timezone.utc), text) for pattern, at, text in cases]
    frame = spark.createDataFrame(rows, "pattern string, at timestamp, text string")
    read = sf.expr("try_to_timestamp(text, pattern)")
    is_a_year = sf.year(read).between(1, 9999)  # of Python's, and of ours
    theirs = frame.select(sf.expr("date_format(at, pattern)"), sf.when(is_a_year, read)).collect()
    differing = []
    for (pattern, at, text), (written, read) in zip(rows, theirs, strict=True):
        ours = TimeWriter("o", pattern).write(pa.array([at], pa.timestamp("us", "UTC")))[0].as_py()
        try:
            value = datetime(1970, 1, 1) + timedelta(microseconds=single(TimeReader("o", pattern), text))
        except (ValueError, OverflowError):
            value = None
        if (ours, value) != (written, read):
            differing.append((pattern, at, text, (ours, value), (written, read)))
    assert not differing, "\n".join(map(str, differing[:20]))


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("yy/MM/dd", "99/01/02", datetime(2099, 1, 2)),
        ("MM/dd", "03/04", datetime(1970, 3, 4)),
        ("HH:mm", "05:06", datetime(1970, 1, 1, 5, 6)),
        ("hh a", "12 am", datetime(1970, 1, 1, 0)),
        ("hh a", "12 PM", datetime(1970, 1, 1, 12)),
        ("EEE, d MMM yyyy", "Wed, 2 jan 2013", datetime(2013, 1, 2)),
        ("yyyy-MM-dd HH:mm:ss.SSSSSSSSS", "2013-01-02 03:04:05.678901234", datetime(2013, 1, 2, 3, 4, 5, 678901)),
        ("yyyy-MM-dd'T'HH:mm:ss XX", "2013-01-02T03:04:05 -0130", datetime(2013, 1, 2, 4, 34, 5, tzinfo=timezone.utc)),
        ("'today'", "today", datetime(1970, 1, 1)),
    ],
)
def test_reading(pattern, text, expected):
    reader = pickle.loads(pickle.dumps(TimeReader("o", pattern)))
    assert single(reader, text) == micros_since_1970(expected.replace(tzinfo=None))
    assert (reader.value(text)[1] is None) == (expected.tzinfo is None)
    assert reader.column(pa.array([text, None])).to_pylist() == [expected, None]


@pytest.mark.parametrize("letter", sorted(set(string.ascii_letters) - set("yuMdDEHhamsSXxZ")))
def test_letters_that_are_not_understood_are_refused_by_both(letter):
    for kind in (TimeReader, TimeWriter):
        with pytest.raises(BadConfigurationError, match=f"option 'dateFormat': '{letter}'"):
            kind("dateFormat", f"yyyy-{letter}")


@pytest.mark.parametrize(
    ("pattern", "words"), [("yyyy[-MM]", "optional parts"), ("yyyy'", "not closed"), ("yyyy/yyyy-MM", "read twice")]
)
def test_patterns_that_cannot_be_read(pattern, words):
    with pytest.raises(BadConfigurationError, match=words):
        TimeReader("dateFormat", pattern)


def test_offsets_of_half_an_hour():
    value = pa.array([0], pa.timestamp("us", "Asia/Kolkata"))
    written = [TimeWriter("o", letters).write(value)[0].as_py() for letters in ("X", "XX", "XXX", "Z")]
    assert written == ["+0530", "+0530", "+05:30", "+0530"]
    reader = TimeReader("o", "HH:mm XXX")
    assert micros_of(reader.column(pa.array(["05:30 +05:30"]))) == [single(reader, "05:30 +05:30")] == [0]


def test_a_part_may_be_written_twice():
    writer = pickle.loads(pickle.dumps(TimeWriter("bucketPattern", "'y='yyyy/'d='yyyy-MM-dd")))
    assert writer.write(pa.array([datetime(2013, 1, 2)], pa.timestamp("us"))).to_pylist() == ["y=2013/d=2013-01-02"]


@pytest.mark.parametrize(
    ("pattern", "unit"),
    [
        ("yyyy-MM-dd", "day"),
        ("yyyy-MM-dd XXX", "hour"),
        ("HH", "hour"),
        ("h a", "hour"),
        ("H:m", "minute"),
        ("H:m:s", "second"),
        ("ss.SS", "millisecond"),
        ("ss.SSSS", "microsecond"),
        ("ss.SSSSSSS", "nanosecond"),
    ],
)
def test_times_within_the_unit_have_one_text(pattern, unit):
    assert TimeWriter("o", pattern).floor == unit
