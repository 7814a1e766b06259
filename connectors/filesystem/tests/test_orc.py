"""ORC files: what Arrow's own reader gives, and times and days in the years and zones that it does not hold."""

from __future__ import annotations

import io
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from penstock.errors import BadDataError
from penstock_filesystem.formats.orc._decimals import decimals
from penstock_filesystem.formats.orc._integers import numbers
from penstock_filesystem.formats.orc._layout import read_tail

CODECS = ["uncompressed", "zlib", "snappy", "lz4", "zstd"]
EXACT = Context(prec=120)
#: Arrow's reader has no time before or after.
NEAR = st.datetimes(datetime(1678, 1, 1), datetime(2261, 12, 31))
ZONED = pa.timestamp("us", "UTC")
PARTS = {"t": pa.timestamp("us"), "i": ZONED, "n": pa.int32()}
#: The types that are read as they are, with their values.
PLAIN = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(1 << 15), (1 << 15) - 1),
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-200, 200),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=4) | st.sampled_from(["one", "two", "three"]),
    pa.binary(): st.binary(max_size=4),
    pa.decimal128(9, 2): st.decimals(-9_999_999, 9_999_999, places=2),
    pa.decimal128(38, 10): st.decimals(-(10**28) + 1, 10**28 - 1, places=10),
}
SCHEMA = pa.schema(
    {
        **PARTS,
        "d": pa.date32(),
        "s": pa.string(),
        "l": pa.list_(pa.timestamp("us")),
        "g": pa.struct(list(PARTS.items())),
        "m": pa.map_(pa.string(), pa.struct([("t", pa.timestamp("us")), ("l", pa.list_(ZONED))])),
    }
)

#: Files have names of their own, so that examples of one test share its directory.
examples = settings(max_examples=30)


def optional(values):
    return st.none() | values


@st.composite
def rows(draw, times=NEAR):
    instants = times.map(lambda one: one.replace(tzinfo=timezone.utc))
    parts = {"t": optional(times), "i": optional(instants), "n": optional(st.integers(0, 100))}
    items = st.fixed_dictionaries({"t": optional(times), "l": optional(st.lists(optional(instants), max_size=3))})
    columns = {
        **parts,
        "d": optional(times.map(datetime.date)),
        "s": optional(st.text(max_size=3)),
        "l": optional(st.lists(optional(times), max_size=3)),
        "g": optional(st.fixed_dictionaries(parts)),
        "m": optional(
            st.dictionaries(st.text(max_size=2), optional(items), max_size=3).map(lambda one: [*one.items()])
        ),
    }
    return draw(st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=60))


def written(table, **options):
    out = io.BytesIO()
    with orc.ORCWriter(out, **options) as writer:
        writer.write(table)
    return out.getvalue()


@pytest.fixture
def read(source_harness, tmp_path):
    """Reads bytes as a file; the schema is inferred unless it is given."""

    def read_bytes(data, schema=None, **options):
        place = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        place.mkdir()
        (place / "a.orc").write_bytes(data)
        source = source_harness.source(place, format="orc", **options)
        return source_harness.read(source, schema or source.infer_schema())

    return read_bytes


def near_of_arrow(data):
    """What Arrow's reader makes of the file, in microseconds, and with a zone where Spark would have one."""
    table = orc.ORCFile(io.BytesIO(data)).read()
    zoned = pa.schema([field.with_type(_zoned(field.type)) for field in SCHEMA])
    return pa.table([column.cast(field.type) for column, field in zip(table.columns, zoned, strict=True)], zoned)


def _zoned(type_):
    if pa.types.is_timestamp(type_):
        return ZONED
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_zoned(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(type_.key_type, _zoned(type_.item_type))
    return pa.list_(_zoned(type_.value_type)) if pa.types.is_list(type_) else type_


@examples
@given(
    data=st.data(),
    type_=st.sampled_from(list(PLAIN)),
    codec=st.sampled_from(CODECS),
    words=st.sampled_from([0.0, 1.0]),
    many=st.sampled_from([1, 300]),
)
def test_every_other_type_is_what_was_written(read, data, type_, codec, words, many):
    """In all of the runs that a writer chooses: of equal numbers, of steps, and of numbers packed or patched."""
    values = data.draw(st.lists(optional(PLAIN[type_]), min_size=1, max_size=40)) * many
    if pa.types.is_integer(type_) and data.draw(st.booleans()):
        values = sorted((value for value in values if value is not None), key=abs)
    column = pa.array(values, type_)
    lists = pa.ListArray.from_arrays(pa.array([0, 0, len(column) // 2, len(column)], pa.int32()), column)
    flat, nested = pa.table({"c": column}), pa.table({"l": lists, "s": pa.StructArray.from_arrays([lists], ["l"])})
    for table in (flat, nested):
        written_table = written(table, compression=codec, dictionary_key_size_threshold=words)
        assert read(written_table).to_pylist() == table.to_pylist()


def segment(random, kind, size, bits):
    """Numbers that a writer puts into one kind of run."""
    high = 1 << (bits - 1)
    values = random.integers(-high, high - 1, size, endpoint=True, dtype=np.int64)
    if kind == "equal":
        return np.full(size, values[0])
    if kind == "steps":
        return np.arange(size) * (values[0] % 1000 - 500) + values[-1] // 2
    if kind == "growing":
        return np.cumsum(values % 100 * random.choice([-1, 1]))
    # A few that need more bits than the others.
    return np.where(random.random(size) < 0.03, values, values % 64) if kind == "patched" else values


@examples
@given(
    seed=st.integers(0, 1 << 32),
    kinds=st.lists(
        st.tuples(
            st.sampled_from(["equal", "steps", "growing", "patched", "packed"]),
            st.sampled_from([1, 3, 10, 11, 511, 512, 513, 5000]),
            st.integers(1, 64),
        ),
        min_size=1,
        max_size=30,
    ),
    times=st.sampled_from([1, 20]),
)
def test_runs_of_every_kind_and_width_beside_each_other(read, seed, kinds, times):
    """More of them, too, than are unpacked together; and as the lengths of texts, which have no sign."""
    random = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        numbers_ = np.concatenate([segment(random, *one) for one in kinds * times])[:60_000]
    texts = pa.compute.binary_repeat("x", pa.array(numbers_ & 31))
    table = pa.table({"n": numbers_, "t": texts})
    found = read(written(table, dictionary_key_size_threshold=0.0))
    assert found.to_pydict() == table.to_pydict()


@given(
    values=st.lists(
        st.tuples(st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-500, 500), st.integers(0, 38)), max_size=30
    )
)
def test_decimals_of_several_scales(values):
    """As the writer in Java leaves them, which drops zeros at the end."""
    data = b"".join(varint(value << 1 if value >= 0 else -value * 2 - 1) for value, _ in values)
    expected = [Decimal(value).scaleb(-scale, EXACT) for value, scale in values]
    scales = np.array([scale for _, scale in values], np.int64)
    for digits in (0, 6, 38):
        scaled = [one.scaleb(digits, EXACT) for one in expected]
        if all(one == int(one) and one.copy_abs() < 10**38 for one in scaled):
            assert decimals(data, scales, pa.decimal128(38, digits)).to_pylist() == expected
        else:
            with pytest.raises(pa.ArrowException):
                decimals(data, scales, pa.decimal128(38, digits))


def varint(number):
    found = []
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


@examples
@given(rows=rows(), codec=st.sampled_from(CODECS), block=st.sampled_from([1 << 16, 1 << 18]))
def test_near_times_are_what_arrow_reads(read, rows, codec, block):
    data = written(pa.Table.from_pylist(rows, SCHEMA), compression=codec, compression_block_size=block)
    ours = read(data)
    assert ours.to_pylist() == near_of_arrow(data).to_pylist()
    plain = read(data, SCHEMA)
    assert plain.to_pylist() == near_of_arrow(data).cast(SCHEMA).to_pylist()


@examples
@given(rows=rows(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23))), codec=st.sampled_from(CODECS))
def test_a_time_of_any_year_is_what_was_written(read, rows, codec):
    """The years that only the seconds' own stream holds; Arrow's writer rounds what Java's does."""
    table = pa.Table.from_pylist(rows, SCHEMA)
    assert read(written(table, compression=codec), SCHEMA).to_pylist() == table.to_pylist()


def read_numbers(version, data, count):
    return numbers(bytes.fromhex(data), count, signed=False, version=version)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("0a2710", [10000] * 5),
        ("5e035ca1ab1edeadbeef", [23713, 43806, 57005, 48879]),
        (
            "8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8",
            [2030, 2000, 2020, 1000000, *range(2040, 2200, 10)],
        ),
        ("c609020222424246", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
    ],
)
def test_runs_of_the_specification(data, expected):
    assert read_numbers(2, data, len(expected)).tolist() == expected
    assert read_numbers(2, data * 2, len(expected) + 1).tolist() == [*expected, expected[0]]
    for cut in range(1, len(data) // 2):
        with pytest.raises(ValueError, match="cut off"):
            read_numbers(2, data[: -2 * cut], len(expected))


@pytest.mark.parametrize(
    ("data", "expected"),
    [("610007", [7] * 100), ("61ff64", [*range(100, 0, -1)]), ("fb020306070b", [2, 3, 6, 7, 11])],
)
def test_runs_of_the_first_version(data, expected):
    assert read_numbers(1, data, len(expected)).tolist() == expected
    with pytest.raises(ValueError, match="cut off"):
        read_numbers(1, data[:-2], len(expected))


#: Written by Spark 4.2 in a JVM whose zone was New York, for ``INSTANTS``: as timestamp, timestamp_ntz, in a list, and
#: as date; with a last row of nulls.
FROM_NEW_YORK = Path(__file__).parent / "orc" / "spark-in-new-york.orc"
INSTANTS = [
    datetime(9999, 12, 31, 23, 59, 59, 123456),
    datetime(1, 1, 1),
    datetime(1500, 3, 1, 12),
    datetime(1883, 1, 1),
    datetime(1900, 1, 1, 5, 0, 0, 250000),
    datetime(1969, 12, 31, 23, 59, 59, 500000),
    datetime(1969, 12, 31, 23, 59, 59, 500),
    datetime(2026, 7, 1, 12, 0, 0, 1),
    datetime(2026, 11, 1, 5, 30),
    datetime(2026, 11, 1, 6, 30),
    datetime(2026, 3, 8, 7, 30),
    datetime(2100, 7, 1),
]


def test_a_file_of_another_zone(read):
    data = FROM_NEW_YORK.read_bytes()
    rows = read(data, timeZone="America/New_York").to_pylist()
    # Of this one, ORC's writer in Java has lost the second, and Spark reads it so.
    expected = [one + timedelta(seconds=1) if one.microsecond == 500000 else one for one in INSTANTS]
    points = [one.replace(tzinfo=timezone.utc) for one in expected]
    assert [row["t"] for row in rows] == [*points, None]
    assert [row["l"] for row in rows] == [*([one, None] for one in points), None]
    assert [row["n"] for row in rows] == [*INSTANTS, None]
    assert [row["d"] for row in rows] == [*(one.date() for one in INSTANTS), None]

    # What clocks in New York showed: as numbers, since one of them is in a year that Python lacks.
    epoch, zone = datetime(1970, 1, 1), ZoneInfo("America/New_York")
    clocks = [(one.astimezone(zone).replace(tzinfo=None) - epoch) // timedelta(microseconds=1) for one in points[2:]]
    schema = pa.schema([("t", pa.timestamp("us")), ("l", pa.list_(pa.timestamp("us")))])
    for options in ({}, {"timeZone": "America/New_York"}, {"timeZone": "Asia/Tokyo"}):
        table = read(data, schema, **options)
        assert table["t"].cast(pa.int64()).to_pylist()[2:-1] == clocks
        assert table["l"].combine_chunks().values.cast(pa.int64()).to_pylist()[4::2] == clocks
    assert read(data, timeZone="UTC")["t"].cast(pa.int64()).to_pylist()[2:-1] == clocks


@pytest.mark.parametrize("size", [300, 3000, 10_000, 1 << 30])
def test_stripes_are_read_once_whatever_the_split_size(tmp_path, source_harness, size):
    table = pa.table({"id": range(60_000), "t": pa.array(range(60_000), pa.timestamp("us"))})
    (tmp_path / "a.orc").write_bytes(written(table, stripe_size=1024, batch_size=64, row_index_stride=1000))
    assert len(read_tail(pa.memory_map(str(tmp_path / "a.orc"))).stripes) > 5
    source = source_harness.source(tmp_path, format="orc", maxSplitBytes=size)
    schema = pa.schema([*table.schema, ("_file_offset", pa.int64())])
    read = source_harness.read(source, schema).sort_by("id")
    assert read["_file_offset"].to_pylist() == read["id"].to_pylist() == list(range(60_000))
    assert read["t"] == table["t"]


def test_columns_by_name(read):
    table = pa.table({"a.b": [1, 2], "A": ["x", "y"], "ü `q`": [1.5, None], "a": [{"b": 3}, None]})
    data = written(table)
    assert read(data) == table
    for name in table.column_names:
        assert read(data, pa.schema([table.schema.field(name)])) == table.select([name])
    upper = pa.schema([("Ü `Q`", pa.float32())])
    assert read(data, upper).to_pylist() == [{"Ü `Q`": 1.5}, {"Ü `Q`": None}]
    with pytest.raises(BadDataError, match=r"a\.orc: the column 'gone' is neither in the file nor.*missingColumns"):
        read(data, pa.schema([("gone", pa.int64())]))
    assert read(data, pa.schema([("gone", pa.int64())]), missingColumns="null").to_pylist() == [{"gone": None}] * 2
    with pytest.raises(BadDataError, match=r"a\.orc: column 'A' holds string, which can't be read as bigint"):
        read(data, pa.schema([("A", pa.int64())]))


def test_rows_without_columns_and_files_without_rows(tmp_path, source_harness, read):
    (tmp_path / "a.orc").write_bytes(written(pa.table({"a": [1, 2, 3]})))
    assert source_harness.rows(tmp_path, [("_file_name", pa.string())], format="orc") == [("a.orc",)] * 3
    empty = pa.table({"a": pa.array([], pa.timestamp("us"))})
    assert read(written(empty), empty.schema) == empty


def test_what_the_schema_lacks_is_rescued(read):
    table = pa.table({"id": [1, 2], "t": pa.array([0, None], pa.timestamp("us")), "s": [{"x": 1, "y": "q"}, None]})
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.int64())])), ("rest", pa.string())])
    rows = read(written(table), schema, rescuedDataColumn="rest").to_pylist()
    assert [row["rest"] for row in rows] == ['{"t":"1970-01-01T00:00:00.000000Z","s":{"y":"q"}}', None]


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file(tmp_path, source_harness, kept):
    data = written(pa.table({"id": range(1000), "t": pa.array(range(1000), pa.timestamp("us"))}))
    (tmp_path / "b.orc").write_bytes(data[: int(len(data) * kept)] or b"x")
    (tmp_path / "c.orc").write_bytes(written(pa.table({"id": [1, 2, 3]})))
    with pytest.raises(BadDataError, match=r"b\.orc"):
        source_harness.rows(tmp_path, [("id", pa.int64())], format="orc")
    rows = source_harness.rows(tmp_path, [("id", pa.int64())], format="orc", ignoreCorruptFiles=True)
    assert rows == [(1,), (2,), (3,)]


@pytest.mark.spark
def test_days_of_the_library_in_cpp(spark, tmp_path, read):
    """It counts all days by one calendar and does not note which; Spark assumes the other one."""
    day = date(1500, 3, 1)
    (tmp_path / "a.orc").write_bytes(written(pa.table({"d": [day]})))
    assert read((tmp_path / "a.orc").read_bytes()).to_pylist() == [{"d": day}]
    assert spark.read.orc(str(tmp_path / "a.orc")).collect()[0]["d"] != day


@pytest.mark.spark
def test_columns_without_names_of_their_own(spark, tmp_path, read):
    """As Hive wrote them."""
    data = written(pa.table({"_col0": [1], "_col1": ["x"]}))
    (tmp_path / "a.orc").write_bytes(data)
    assert read(data).to_pylist() == [{"_col0": 1, "_col1": "x"}]
    assert spark.read.schema("id long, s string").orc(str(tmp_path / "a.orc")).collect() == [(1, "x")]
    with pytest.raises(BadDataError, match="the column 'id' is neither in the file"):
        read(data, pa.schema([("id", pa.int64())]))
