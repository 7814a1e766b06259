"""A row that does not fit changes nothing but itself: its neighbours are read as they would be without it."""

from __future__ import annotations

import json
from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

SCHEMA = [
    ("tiny", pa.int8()),
    ("big", pa.int64()),
    ("ratio", pa.float64()),
    ("small", pa.float32()),
    ("price", pa.decimal128(10, 2)),
    ("wide", pa.decimal128(38, 9)),
    ("whole", pa.decimal128(38, 0)),
    ("flag", pa.bool_()),
    ("text", pa.string()),
    ("day", pa.date32()),
    ("at", pa.timestamp("us", "UTC")),
    ("local", pa.timestamp("us")),
]
NUMBERS = st.one_of(
    st.integers(-(10**38), 10**38).map(lambda digits: f"{digits // 10**9}.{abs(digits) % 10**9:09}"),
    st.integers(-(10**38), 10**38).map(str),
    st.integers(-(2**63), 2**63).map(str),
    st.integers(-200, 200).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["1e3", "+5", "007", "1.", ".5", "-0.0", "1_000", " 5", "5 ", "0x1f", "NaN", "Infinity", "-inf"]),
)
MOMENTS = st.builds(
    lambda at, between, digits, zone: (
        f"{at:%Y-%m-%d}".rjust(10, "0") + between + f"{at:%H:%M:%S}" + f".{at:%f}000"[:digits] + zone
    ),
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    st.sampled_from(["T", " "]),
    st.sampled_from([0, 0, 2, 4, 7, 10]),
    st.sampled_from(["", "", "Z", "UTC", "+01:00", "-0530", "+01", " +01:00", " "]),
) | st.sampled_from(
    ["2024-01-02", "2024-1-2", "2024-01", "2024-01-02 03", "2024-01-02 3:4", "2024-02-30", "0001-01-01"]
)
WORDS = st.sampled_from(["true", "FALSE", "a", "", " ", "é", '"', "null", "NaN"])
KINDS = {"flag": WORDS, "text": WORDS | MOMENTS, "day": MOMENTS, "at": MOMENTS, "local": MOMENTS}
ROWS = st.lists(
    st.fixed_dictionaries({}, optional={name: KINDS.get(name, NUMBERS) for name, _ in SCHEMA}), min_size=1, max_size=3
)
SOME = settings(max_examples=40)
MANY = settings(SOME, max_examples=400)


def as_json(row, quoted):
    """One line. A number that JSON takes as one goes unquoted if it may."""

    def value(name, text):
        try:
            return json.dumps(text) if quoted or name in KINDS or json.loads(text) is None else text
        except ValueError:
            return json.dumps(text)

    return "{" + ",".join(f'"{name}":{value(name, text)}' for name, text in row.items()) + "}\n"


def as_csv(row, quoted):
    cells = [row.get(name, "") for name, _ in SCHEMA]
    return ",".join('"' + cell.replace('"', '""') + '"' if quoted or '"' in cell else cell for cell in cells) + "\n"


def read_alike(read, lines, bad):
    together = read("".join(lines) + bad)
    assert len(together) == len(lines) + 1 and together[-1][-1], "nothing was bad"
    assert [str(read(line)[0]) for line in lines] == [str(row) for row in together[: len(lines)]]


@pytest.fixture(params=[("json", as_json, "{\n"), ("csv", as_csv, "x," * 11 + "x\n")], ids=["json", "csv"])
def way(request, tmp_path, source_harness):
    name, to_line, bad = request.param

    def read(data):
        path = tmp_path / "in"
        path.write_text(data)
        return source_harness.rows(path, [*SCHEMA, ("_corrupt_record", pa.string())], format=name)

    return read, to_line, bad


@SOME
@example(rows=[{"price": "100000000"}], quoted=False)
@example(rows=[{"wide": f"{'9' * 29}.{'9' * 9}", "whole": "9" * 38}], quoted=True)
@given(ROWS, st.booleans())
def test_a_bad_row_changes_nothing_but_itself(way, rows, quoted):
    read, to_line, bad = way
    read_alike(read, [to_line(row, quoted) for row in rows], bad)


@pytest.mark.exhaustive("hundreds of files; test_a_bad_row_changes_nothing_but_itself has some")
@MANY
@given(ROWS, st.booleans())
def test_a_bad_row_changes_nothing_but_itself_in_many_files(way, rows, quoted):
    read, to_line, bad = way
    read_alike(read, [to_line(row, quoted) for row in rows], bad)
