"""Hadoop's sequence files: what we write is read, by us and by Spark, and what Spark writes is read by us."""

from __future__ import annotations

import os
import struct
import zlib

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, BadDataError
from penstock_filesystem.formats.sequence._layout import CODECS
from penstock_filesystem.formats.sequence._reader import _more_bytes, _variable

BINARY = pa.binary()
PAIRS = pa.schema([("key", pa.int64()), ("value", pa.string())])
HADOOP = "org.apache.hadoop.io"
CODEC = f"{HADOOP}.compress"


@pytest.mark.parametrize("compression", ["none", *CODECS])
def test_what_is_written_is_read(tmp_path, sink_query, source_harness, compression):
    """Also where files of several batches were joined as bytes, and blocks are larger than a codec's pieces."""
    query = sink_query(tmp_path, PAIRS, tasks=1, format="sequencefile", compression=compression)
    rows = [{"key": number, "value": f"{number:x}é" * (number % 700)} for number in range(3000)]
    for start in range(0, 3000, 1000):
        query.run([pa.RecordBatch.from_pylist(rows[start : start + 1000], schema=PAIRS)])
    query.finish()
    source = source_harness.source(tmp_path, format="sequencefile")
    assert source.infer_schema() == PAIRS
    assert source_harness.read(source, PAIRS).to_pylist() == rows
    only = pa.schema([("value", pa.binary()), ("_file_offset", pa.int64())])
    assert source_harness.read(source, only).to_pylist() == [
        {"value": row["value"].encode(), "_file_offset": row["key"]} for row in rows
    ]
    assert source_harness.read(source, pa.schema([("_file_offset", pa.int64())])).num_rows == 3000


@pytest.mark.parametrize("type_", [pa.string(), pa.binary(), pa.int32(), pa.int64()], ids=str)
def test_types(tmp_path, sink_query, source_harness, type_):
    schema = pa.schema([("key", type_), ("value", type_)])
    values = ["", "a" * 127, "é" * 128] if type_ == pa.string() else [b"", b"\0", b"x" * 300]
    if pa.types.is_integer(type_):
        values = [0, -1, 2 ** (type_.bit_width - 1) - 1]
    query = sink_query(tmp_path, schema, tasks=1, format="sequencefile", rollOnCheckpoint=True)
    rows = [{"key": value, "value": value} for value in values]
    query.run([pa.RecordBatch.from_pylist(rows, schema=schema)])
    source = source_harness.source(tmp_path, format="sequencefile")
    assert source.infer_schema() == schema
    assert source_harness.read(source, schema).to_pylist() == rows


# --- files made here, byte by byte ------------------------------------------------------------------------------------


def text(value):
    return bytes([len(value)]) + value.encode()


def a_file(key, value, *records, codec=None, blocks=False, notes=(), version=6):
    """A file of that layout; ``records`` follow as they are."""
    how = bytes([codec is not None, blocks]) + (text(codec) if codec else b"")
    noted = struct.pack(">i", len(notes)) + b"".join(map(text, sum(notes, ())))
    return b"SEQ" + bytes([version]) + text(key) + text(value) + how + noted + b"s" * 16 + b"".join(records)


def record(key, value):
    return struct.pack(">ii", len(key) + len(value), len(key)) + key + value


@pytest.fixture
def rows(tmp_path, source_harness):
    def read(data, key=BINARY, value=BINARY, **options):
        (tmp_path / "a.seq").write_bytes(data)
        return source_harness.rows(tmp_path, [("key", key), ("value", value)], format="sequencefile", **options)

    return read


@pytest.mark.parametrize(
    ("name", "stored", "type_", "value"),
    [
        ("BooleanWritable", b"\1", pa.bool_(), True),
        ("ByteWritable", b"\xff", pa.int8(), -1),
        ("ShortWritable", b"\xff\xfe", pa.int16(), -2),
        ("FloatWritable", struct.pack(">f", 1.5), pa.float32(), 1.5),
        ("DoubleWritable", struct.pack(">d", -0.1), pa.float64(), -0.1),
        ("VIntWritable", bytes([0x8F, 0x80]), pa.int32(), 128),
        ("VIntWritable", bytes([0x87, 0x70]), pa.int32(), -113),
        ("VLongWritable", bytes([0x88]) + struct.pack(">q", 2**62), pa.int64(), 2**62),
        ("NullWritable", b"", pa.string(), None),
        ("MapWritable", b"any bytes", pa.binary(), b"any bytes"),
    ],
)
def test_what_each_class_becomes(rows, tmp_path, source_harness, name, stored, type_, value):
    data = a_file(f"{HADOOP}.{name}", "some.other.Text", record(stored, b"\1a"), notes=[("who", "me")])
    assert rows(data, type_) == [(value, b"\1a")]
    source = source_harness.source(tmp_path, format="sequencefile")
    assert source.infer_schema() == pa.schema([("key", type_), ("value", pa.binary())])


def packed(data):
    return zlib.compress(data)


def sized(data):
    assert len(data) < 128
    return bytes([len(data)]) + data


def block(*pairs, count=None, lengths=None):
    keys, values = ([pair[side] for pair in pairs] for side in (0, 1))
    parts = (lengths or bytes(map(len, keys)), b"".join(keys), bytes(map(len, values)), b"".join(values))
    number = len(pairs) if count is None else count
    return b"\xff" * 4 + b"s" * 16 + bytes([number]) + b"".join(sized(packed(part)) for part in parts)


def test_layouts(rows):
    plain, other = f"{HADOOP}.LongWritable", "x.Y"
    one, two = struct.pack(">q", 1), struct.pack(">q", 2)
    mark = b"\xff" * 4 + b"s" * 16
    assert rows(a_file(plain, other, mark, record(one, b"a"), record(two, b""), mark), pa.int64()) == [
        (1, b"a"),
        (2, b""),
    ]
    for codec in ("DefaultCodec", "DeflateCodec", "GzipCodec"):
        data = a_file(plain, other, record(one, packed(b"a" * 99)), codec=f"{CODEC}.{codec}")
        assert rows(data, pa.int64()) == [(1, b"a" * 99)]
    zstd = pa.compress(b"a" * 99, "zstd", asbytes=True)
    data = a_file(plain, other, record(one, zstd), codec=f"{CODEC}.ZStandardCodec")
    assert rows(data, pa.int64()) == [(1, b"a" * 99)]
    data = a_file(
        plain, other, block((one, b"a"), (two, b"")), block((one, b"c")), codec=f"{CODEC}.DefaultCodec", blocks=True
    )
    assert rows(data, pa.int64()) == [(1, b"a"), (2, b""), (1, b"c")]
    assert rows(a_file(plain, other), pa.int64()) == rows(b"", pa.int64()) == []


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PAR1" + bytes(100), "does not begin as a sequence file does"),
        (a_file("a", "b", version=5), "version 5; version 6 is read"),
        (a_file("a", "b", codec="com.hadoop.LzoCodec"), "codec com.hadoop.LzoCodec is not known"),
        (a_file("a", "b", b"\xff" * 4 + b"t" * 16), "a sync marker is not the file's"),
        (a_file("a", "b", struct.pack(">ii", 3, 4) + b"abcd"), "a record of 3 bytes, 4 of them"),
        (a_file("a", "b", struct.pack(">ii", -7, -7)), "a record of -7 bytes"),
        (a_file("a", "b", struct.pack(">ii", 1 << 30, 1)), "ends inside of a record"),
        (a_file("a", "b", record(b"a", b"b"))[:-1], "ends inside of a record"),
        (a_file("a", "b", record(b"a", b"not zlib"), codec=f"{CODEC}.DefaultCodec"), "compressed is damaged"),
        (a_file("a", "b", record(b"a", packed(b"x" * 99)[:-3]), codec=f"{CODEC}.DefaultCodec"), "has no end"),
        (a_file("a", "b", record(b"a", b"b"), codec=f"{CODEC}.DefaultCodec", blocks=True), "a record of"),
        (a_file("a", "b", block((b"a", b"b"), count=2), codec=f"{CODEC}.DefaultCodec", blocks=True), "2 lengths in 1"),
        (a_file("a", "b", block((b"a", b"b"), count=0), codec=f"{CODEC}.DefaultCodec", blocks=True), "1 bytes follow"),
        (
            a_file(
                "a", "b", block((b"a", b"b"), lengths=b"\x8f\x05", count=2), codec=f"{CODEC}.DefaultCodec", blocks=True
            ),
            "ends inside of a number",
        ),
        (
            a_file("a", "b", block((b"a", b"b"), lengths=b"\x02"), codec=f"{CODEC}.DefaultCodec", blocks=True),
            "a block of 1 bytes has lengths that do not fit",
        ),
        (a_file(f"{HADOOP}.Text", "b", record(b"\5abc", b"")), "a text of 3 bytes says that it has 5"),
        (a_file(f"{HADOOP}.IntWritable", "b", record(b"abc", b"")), "a number does not have 4 bytes"),
        (a_file(f"{HADOOP}.VIntWritable", "b", record(b"\1\1", b"")), "does not end where its record does"),
        (a_file(f"{HADOOP}.BytesWritable", "b", record(b"\0\0\0\2a", b"")), "do not fit its length"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_damaged_is_said(rows, data, words):
    with pytest.raises(BadDataError, match=f"a.seq cannot be read as sequencefile: .*{words}.*ignoreCorruptFiles"):
        rows(data)
    assert rows(data, ignoreCorruptFiles=True) == []


def test_a_small_value_does_not_become_a_large_one(rows, monkeypatch):
    monkeypatch.setattr("penstock_filesystem.formats.sequence._layout.MOST_BYTES", 1000)
    for codec in ("DefaultCodec", "BZip2Codec", "SnappyCodec", "Lz4Codec", "ZStandardCodec"):
        compress = {one.class_name: one.compress for one in CODECS.values()}
        compress["ZStandardCodec"] = lambda data: pa.compress(data, "zstd", asbytes=True)
        fits, does_not = (
            a_file("a", "b", record(b"", compress[codec](bytes(size))), codec=f"{CODEC}.{codec}")
            for size in (1000, 1001)
        )
        assert rows(fits) == [(b"", bytes(1000))]
        with pytest.raises(BadDataError, match="becomes more than 1000 bytes"):
            rows(does_not)


def test_other_columns_are_refused(rows, tmp_path, source_harness):
    with pytest.raises(BadConfigurationError, match="has no column 'x': it has key and value"):
        source_harness.source(tmp_path, format="sequencefile").validate_schema(pa.schema([("x", pa.string())]))
    with pytest.raises(BadDataError, match="column 'key' holds string, which can't be read as bigint"):
        rows(a_file(f"{HADOOP}.Text", "b", record(b"\1x", b"")), pa.int64())


@settings(max_examples=300)
@given(st.integers(-(2**63), 2**63 - 1))
def test_variable_length_numbers(value):
    """Hadoop's WritableUtils.writeVLong, from its documentation."""
    if -112 <= value <= 127:
        stored = struct.pack("b", value)
    else:
        bits = value if value >= 0 else ~value
        size = max(1, (bits.bit_length() + 7) // 8)
        stored = struct.pack("b", (-112 if value >= 0 else -120) - size) + bits.to_bytes(size, "big")
    assert _variable(stored + b"rest", 0) == (value, len(stored)) and _more_bytes(stored[0]) == len(stored) - 1


# --- Spark ------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("compression", CODECS)
def test_spark_reads_what_is_compressed(spark, sink_query, tmp_path, compression):
    query = sink_query(tmp_path, PAIRS, tasks=1, format="sequencefile", compression=compression)
    rows = [{"key": number, "value": f"{number}é" * (number % 500)} for number in range(2000)]
    for start in (0, 1000):
        query.run([pa.RecordBatch.from_pylist(rows[start : start + 1000], schema=PAIRS)])
    query.finish()
    found = spark.sparkContext.sequenceFile(f"{tmp_path}/*/*.seq", minSplits=3).collect()
    assert sorted(found) == [(row["key"], row["value"]) for row in rows]


@pytest.mark.spark
@pytest.mark.parametrize("how", ["NONE", "RECORD", "BLOCK"])
@pytest.mark.parametrize("codec", ["DefaultCodec", "BZip2Codec", "SnappyCodec", "Lz4Codec"])
def test_what_spark_writes_is_read(spark, source_harness, tmp_path, how, codec):
    pairs = [(number, f"{number}é" * (number % 300)) for number in range(1500)]
    out = str(tmp_path / "out")
    settings_ = {
        "mapreduce.output.fileoutputformat.outputdir": out,
        "mapreduce.output.fileoutputformat.compress": str(how != "NONE").lower(),
        "mapreduce.output.fileoutputformat.compress.type": how,
        "mapreduce.output.fileoutputformat.compress.codec": f"{CODEC}.{codec}",
        "mapreduce.job.outputformat.class": "org.apache.hadoop.mapreduce.lib.output.SequenceFileOutputFormat",
        "mapreduce.job.output.key.class": f"{HADOOP}.IntWritable",
        "mapreduce.job.output.value.class": f"{HADOOP}.Text",
    }
    spark.sparkContext.parallelize(pairs, 2).saveAsNewAPIHadoopDataset(settings_)
    assert [name for name in os.listdir(out) if name.startswith("part-")]
    source = source_harness.source(out, format="sequencefile")
    schema = source.infer_schema()
    assert schema == pa.schema([("key", pa.int32()), ("value", pa.string())])
    assert sorted(source_harness.rows(out, list(schema), format="sequencefile")) == pairs
