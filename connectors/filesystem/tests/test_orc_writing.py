"""ORC files that are written: by our reader, Arrow's and Spark's they are what was written."""

from __future__ import annotations

import io
from datetime import date, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from penstock.errors import BadConfigurationError, BadDataError
from penstock_filesystem.formats import WriteOptions, create_writer, merge_files
from penstock_filesystem.options import SINK_OPTIONS
from penstock_filesystem.sink.staging import StagedFile

UTC = timezone.utc
CODECS = ["zstd", "snappy", "zlib", "lz4", "none"]
EPOCH = datetime(1970, 1, 1)
#: ORC can't hold a time in the second before 1970.
TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).filter(
    lambda one: one >= EPOCH or one < EPOCH - timedelta(seconds=1)
)
NEAR = st.datetimes(datetime(1678, 1, 1), datetime(2261, 12, 31)).filter(lambda one: one >= EPOCH or one.year < 1969)


def optional(values):
    return st.none() | values


def columns_of(times):
    zoned = times.map(lambda one: one.replace(tzinfo=UTC))
    return {
        "bool": (pa.bool_(), st.booleans()),
        "byte": (pa.int8(), st.integers(-128, 127)),
        "short": (pa.int16(), st.integers(-(1 << 15), (1 << 15) - 1)),
        "int": (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
        "long": (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-9, 9)),
        "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
        "double": (pa.float64(), st.floats(allow_nan=False)),
        "text": (pa.string(), st.text(max_size=3)),
        "bytes": (pa.binary(), st.binary(max_size=3)),
        "day": (pa.date32(), st.dates()),
        "short decimal": (pa.decimal128(9, 2), st.decimals(-9_999_999, 9_999_999, places=2)),
        "long decimal": (pa.decimal128(38, 10), st.decimals(-(10**28) + 1, 10**28 - 1, places=10)),
        "point": (pa.timestamp("us", "UTC"), zoned),
        "clock": (pa.timestamp("us"), times),
        "list": (pa.list_(pa.timestamp("us")), st.lists(optional(times), max_size=3)),
        "map": (
            pa.map_(pa.string(), pa.list_(pa.int16())),
            st.dictionaries(st.text(max_size=2), optional(st.lists(optional(st.integers(0, 9)), max_size=2))).map(
                lambda one: list(one.items())
            ),
        ),
        "struct": (
            pa.struct([("a", pa.int8()), ("t", pa.timestamp("us", "UTC")), ("s", pa.struct([("x", pa.string())]))]),
            st.fixed_dictionaries(
                {
                    "a": optional(st.integers(0, 9)),
                    "t": optional(zoned),
                    "s": optional(st.fixed_dictionaries({"x": optional(st.text(max_size=2))})),
                }
            ),
        ),
    }


def schema_of(columns):
    return pa.schema([(name, type_) for name, (type_, _) in columns.items()])


def rows_of(columns):
    return st.lists(st.fixed_dictionaries({name: optional(values) for name, (_, values) in columns.items()}))


EVERY, IN_ARROW = columns_of(TIMES), columns_of(NEAR)
examples = settings(max_examples=20)


def writer_of(schema, **given):
    values = SINK_OPTIONS.parse({"path": "/x", "format": "orc", **given}, owner="sink")
    made = create_writer(schema, WriteOptions.from_values(values))
    made.validate()
    return made


def encoded(table, flush=False, **given):
    stream = io.BytesIO()
    encoder = writer_of(table.schema, **given).encoder(StagedFile("", stream), "q")
    for batch in table.to_batches():
        encoder.write(batch)
        if flush:
            encoder.flush()
            assert not encoder.buffered_bytes and not encoder.size_is_guess
    assert encoder.size <= stream.tell() + encoder.buffered_bytes
    encoder.finish()
    return stream.getvalue()


@pytest.fixture
def read(source_harness, tmp_path):
    def read_bytes(data):
        place = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        place.mkdir()
        (place / "a.orc").write_bytes(data)
        source = source_harness.source(place, format="orc")
        return source_harness.read(source, source.infer_schema())

    return read_bytes


@examples
@given(rows_of(EVERY), st.sampled_from(CODECS), st.integers(1, 60), st.booleans(), st.integers(0, 3))
def test_what_is_written_is_read(read, rows, codec, many, flush, first):
    """Also slices, whose buffers begin elsewhere, in several stripes, and merged."""
    table = pa.Table.from_pylist(rows * many, schema_of(EVERY))
    table = pa.Table.from_batches([*table.slice(first).to_batches(), *table.slice(0, 5).to_batches()], table.schema)
    data = encoded(table, flush, compression=codec)
    found = read(data)
    assert found.schema.equals(table.schema) and found.to_pylist() == table.to_pylist()
    merged = io.BytesIO()
    merge_files("orc", writer_of(table.schema), [io.BytesIO(data)] * 2, StagedFile("", merged))
    assert read(merged.getvalue()).to_pylist() == table.to_pylist() * 2


@examples
@given(rows_of(IN_ARROW), st.sampled_from(CODECS))
def test_arrow_reads_it(rows, codec):
    table = pa.Table.from_pylist(rows, schema_of(IN_ARROW))
    found = orc.ORCFile(io.BytesIO(encoded(table, compression=codec))).read()
    for name in table.column_names:
        if name not in ("clock", "list"):  # whole numbers for Arrow, which does not know Spark's note
            expected = table.column(name)
            assert found.column(name).cast(expected.type).to_pylist() == expected.to_pylist(), name


@pytest.mark.parametrize("nested", [False, True])
def test_the_second_before_1970_is_refused(nested):
    """Java's reader would take it for the second after."""
    first = datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)
    kept = [first + timedelta(microseconds=one) for one in (0, 1, 999)]
    type_ = pa.timestamp("us", "UTC")
    times = pa.array([*kept, first + timedelta(microseconds=1000)], type_)
    column = pa.StructArray.from_arrays([times], ["x"]) if nested else times
    encoded(pa.table({"t": column.slice(0, 3)}))
    name = "t.x" if nested else "t"
    with pytest.raises(BadDataError, match=f"column '{name}' has a time in the last second before 1970"):
        encoded(pa.table({"t": column}))


@pytest.mark.parametrize(
    "type_",
    [
        pa.null(),
        pa.struct([]),
        pa.list_(pa.duration("us")),
        pa.map_(pa.string(), pa.time64("us")),
        pa.struct([("x", pa.uint8())]),
        pa.decimal256(50, 2),
    ],
)
def test_columns_of_types_that_orc_lacks(type_):
    with pytest.raises(BadConfigurationError, match="format orc can't hold column 'c'"):
        writer_of(pa.schema([("c", type_)]))


@pytest.mark.spark
def test_spark_reads_it(spark, tmp_path):
    days = [date(1, 1, 1), date(1500, 2, 28), date(1582, 10, 15), date(1970, 1, 1), date(9999, 12, 31)]
    times = [datetime(one.year, one.month, one.day, 1, 2, 3, 400_001) for one in days]
    rows = [
        {
            "bool": one.day == 1,
            "byte": -one.day,
            "long": -(10**17) * one.day,
            "double": one.day / 7,
            "text": f"é{one}",
            "bytes": bytes([one.day]),
            "day": one,
            "long decimal": None,
            "point": time.replace(tzinfo=UTC),
            "clock": time,
            "list": [time, None],
            "map": [(str(one), [1, None])],
            "struct": {"a": 1, "t": time.replace(tzinfo=UTC), "s": {"x": None}},
        }
        for one, time in zip(days, times, strict=True)
    ]
    rows.append(dict.fromkeys(EVERY))
    table = pa.Table.from_pylist(rows * 200, schema_of(EVERY))
    for codec in CODECS:
        (tmp_path / f"{codec}.orc").write_bytes(encoded(table, compression=codec))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    found = spark.read.orc(str(tmp_path))
    as_text = [f"cast(`{name}` as string)" for name in table.column_names]
    theirs = {
        tuple(row): count
        for *row, count in found.selectExpr(*as_text).groupBy(*found.selectExpr(*as_text).columns).count().collect()
    }
    ours = spark.createDataFrame(table).selectExpr(*as_text)
    expected = {tuple(row): count for *row, count in ours.groupBy(*ours.columns).count().collect()}
    assert theirs == {row: count * len(CODECS) for row, count in expected.items()}
    types = dict(spark.createDataFrame(table).dtypes)
    assert dict(found.dtypes) == types | {"clock": "timestamp_ntz", "list": "array<timestamp_ntz>"}
    # No filter may skip a stripe that has no indexes.
    assert found.where("day = date'1500-02-28' and text > 'a' and double < 5 and bool = false").count() == 1000
    assert found.where("`long decimal` is null").count() == 6000
