"""Text, Parquet, Avro, whole files, compression and metadata columns."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import struct
import uuid
import zlib
from datetime import datetime, timezone
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import BadConfigurationError, BadDataError, RetriableError
from penstock_filesystem import FileSystemConnector
from penstock_filesystem.formats import _compression
from penstock_filesystem.formats.avro._plain import PlainStream
from penstock_filesystem.source._reader import _says_corrupt
from suite.over_network import source_query

UTC = timezone.utc
VALUE = [("value", pa.string())]


def test_text_lines_and_whole_files(tmp_path, source_harness):
    path = tmp_path / "a.txt"
    path.write_bytes("a\r\n\né\rlast".encode())
    assert source_harness.rows(path, VALUE, format="text") == [("a",), ("",), ("é",), ("last",)]
    assert source_harness.rows(path, VALUE, format="text", wholetext=True) == [("a\r\n\né\rlast",)]
    assert source_harness.rows(path, VALUE, format="text", lineSep="\r\n") == [("a",), ("\né\rlast",)]
    (tmp_path / "empty.txt").write_bytes(b"")
    assert source_harness.rows(tmp_path / "empty.txt", VALUE, format="text") == []
    assert source_harness.rows(tmp_path / "empty.txt", VALUE, format="text", wholetext=True) == [("",)]


def test_text_that_is_not_of_the_encoding(tmp_path, source_harness):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n\xff\nb\n")
    assert source_harness.rows(path, VALUE, format="text") == [("a",), ("\ufffd",), ("b",)]
    assert source_harness.rows(path, VALUE, format="text", mode="DROPMALFORMED") == [("a",), ("b",)]
    assert source_harness.rows(path, VALUE, format="text", encoding="latin-1") == [("a",), ("ÿ",), ("b",)]
    for whole in (False, True):
        with pytest.raises(BadDataError, match="not utf-8"):
            source_harness.rows(path, VALUE, format="text", mode="FAILFAST", wholetext=whole)
    path.write_bytes("a\nb\n".encode("utf-16")[:-1])
    with pytest.raises(BadDataError, match=r"a\.txt cannot be read as text"):
        source_harness.rows(path, VALUE, format="text", encoding="utf-16")


def hadoop(codec, data, block=100_000, chunk=40_000):
    """As Hadoop's codecs write it: blocks of several chunks."""
    parts = []
    for start in range(0, len(data), block):
        whole = data[start : start + block]
        parts.append(struct.pack(">i", len(whole)))
        for at in range(0, len(whole), chunk):
            small = pa.compress(whole[at : at + chunk], codec, asbytes=True)
            parts += [struct.pack(">i", len(small)), small]
    return b"".join(parts)


COMPRESSED = {
    "gz": gzip.compress,
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "deflate": zlib.compress,
    "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
    "zstd": lambda data: pa.compress(data, "zstd", asbytes=True),
    "lz4": lambda data: pa.compress(data, "lz4", asbytes=True),
    "hadoop.lz4": lambda data: hadoop("lz4_raw", data),
    "snappy": lambda data: hadoop("snappy", data),
}


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_compressed_files_are_one_split(tmp_path, source_harness, suffix):
    data = "".join(f"line {i} {uuid.UUID(int=i**9)}\n" for i in range(10_000)).encode()
    path = tmp_path / f"a.txt.{suffix}"
    path.write_bytes(COMPRESSED[suffix](data))
    source = source_harness.source(path, format="text", maxSplitBytes=10)
    assert len(source_harness.splits(source)) == 1
    assert source_harness.read(source).column("value").to_pylist() == data.decode().splitlines()
    whole = path.read_bytes()
    for end in (len(whole) - 30, len(whole) // 2, 6):
        path.write_bytes(whole[:end])
        with pytest.raises(BadDataError, match="cannot be read as text"):
            source_harness.read(source_harness.source(path, format="text"))
        source_harness.metrics.take()
        source_harness.read(source_harness.source(path, format="text", ignoreCorruptFiles=True))
        assert source_harness.metrics.snapshot()["corrupt_files"] == 1


def test_rows_before_the_end_of_a_file_cut_off(tmp_path, source_harness):
    """What a block holds is lost with its end; what was before the block is read."""
    lines = [f"{i:050d}" for i in range(200_000)]
    data = gzip.compress("\n".join(lines).encode(), 1)
    (tmp_path / "a.gz").write_bytes(data[:-20])
    rows = source_harness.rows(tmp_path, VALUE, format="text", ignoreCorruptFiles=True)
    assert 0 < len(rows) < len(lines) and [row[0] for row in rows] == lines[: len(rows)]


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_compressed_streams_one_after_the_other(tmp_path, source_harness, suffix):
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(b"".join(map(COMPRESSED[suffix], (b"a\n", b"b\n"))))
    assert source_harness.rows(path, VALUE, format="text") == [("a",), ("b",)]


def test_pieces_of_deflate_are_small():
    """Some kilobytes may become gigabytes."""
    sizes = [len(piece) for piece in _compression._inflated(io.BytesIO(zlib.compress(bytes(50 << 20))).read)]
    assert sum(sizes) == 50 << 20 and max(sizes) <= _compression._PIECE_BYTES


@pytest.mark.parametrize(
    ("suffix", "data", "said"),
    [
        ("lz4", b"\0\0\0\x02\0\0\0\x05\x20a\n", "ends inside of a chunk"),
        ("lz4", b"\0\0\0\x05\0\0\0\x03\x20a\n", "ends inside of a block"),
        ("lz4", b"\0\0\0\x01\0\0\0\x03\x20a\n", "2 bytes where 1 are left"),
        ("lz4", b"not compressed at all", "framing of Hadoop"),
        ("snappy", b"\xff\x06\0\0sNaPpY", "framing of Hadoop"),
        ("snappy", b"\0\0\0\x05\0\0\0\x05\xff\xff\xff\xff\x0f", "5 bytes of snappy can't become"),
        ("zip", b"PK\x03\x04", r"files whose name ends with \.zip are not unpacked"),
        ("csv.br", b"x", r"files whose name ends with \.br are not unpacked"),
    ],
)
def test_what_can_not_be_decompressed(tmp_path, source_harness, suffix, data, said):
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(data)
    with pytest.raises(BadDataError, match=f"cannot be read as text: .*{said}"):
        source_harness.rows(path, VALUE, format="text")


PARQUET = [("id", pa.int64()), ("s", pa.string())]


def write_parquet(path, rows=1000, group=100):
    table = pa.table({"id": pa.array(range(rows), pa.int32()), "s": [f"text {i}" for i in range(rows)]})
    pq.write_table(table, path, row_group_size=group)


@pytest.mark.parametrize("size", [1, 700, 5000, 10**9])
def test_parquet_row_groups_are_read_once_whatever_the_split_size(tmp_path, source_harness, size):
    write_parquet(tmp_path / "a.parquet")
    source = source_harness.source(tmp_path, format="parquet", maxSplitBytes=max(size, 50))
    read = source_harness.read(source, pa.schema([*PARQUET, ("_file_offset", pa.int64())]))
    assert read.column("id").to_pylist() == list(range(1000)) == read.column("_file_offset").to_pylist()


def test_parquet_columns_by_name(tmp_path, source_harness):
    write_parquet(tmp_path / "a.parquet", 2)
    schema = [("S", pa.string()), ("gone", pa.date32()), ("id", pa.float64())]
    with pytest.raises(BadDataError, match=r"a\.parquet: the column 'gone' is neither in the file nor.*missingColumns"):
        source_harness.rows(tmp_path, schema, format="parquet")
    for more in ({"missingColumns": "null"}, {"mergeSchema": True}):
        rows = source_harness.rows(tmp_path, schema, format="parquet", **more)
        assert rows == [("text 0", None, 0.0), ("text 1", None, 1.0)]
    assert source_harness.rows(tmp_path, [("_file_name", pa.string())], format="parquet") == [("a.parquet",)] * 2
    with pytest.raises(BadDataError, match=r"a\.parquet: column 's' holds string, which can't be read as bigint"):
        source_harness.rows(tmp_path, [("s", pa.int64())], format="parquet")


@pytest.mark.parametrize("list_", [pa.list_, pa.large_list, lambda item: pa.list_(item, 1)])
def test_parquet_points_in_time_behind_lists_of_every_kind(tmp_path, source_harness, list_):
    """Arrow notes its own types in the file: each still takes as many of its columns."""
    inner = pa.struct([("x", pa.int32()), ("at", pa.timestamp("ns"))])
    schema = pa.schema([("l", list_(inner)), ("n", pa.int32()), ("at", pa.timestamp("ns"))])
    at = datetime(2024, 1, 1)
    table = pa.Table.from_pylist([{"l": [{"x": 1, "at": at}], "n": 2, "at": at}], schema)
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    source = source_harness.source(tmp_path, format="parquet")
    found = source.infer_schema()
    zoned = pa.timestamp("us", "UTC")
    assert found.field("n").type == pa.int32() and found.field("at").type == zoned
    assert found.field("l").type == list_(pa.field("element", pa.struct([("x", pa.int32()), ("at", zoned)])))
    in_utc = at.replace(tzinfo=UTC)
    assert source_harness.read(source, found).to_pylist() == [{"l": [{"x": 1, "at": in_utc}], "n": 2, "at": in_utc}]


@pytest.mark.parametrize("nested", [False, True])
def test_parquet_decimals_with_more_digits_than_their_type(tmp_path, source_harness, nested):
    numbers = b"".join(number.to_bytes(16, "little", signed=True) for number in (123, -140737488355326))
    decimals = pa.Array.from_buffers(pa.decimal128(12, 2), 2, [None, pa.py_buffer(numbers)])
    column = pa.StructArray.from_arrays([decimals], ["x"]) if nested else decimals
    pq.write_table(pa.table({"d": column}), tmp_path / "a.parquet")
    with pytest.raises(
        BadDataError, match=r"a\.parquet: column 'd' holds .*-140737488355326 does not fit in precision"
    ):
        source_harness.rows(tmp_path, [("d", column.type)], format="parquet")


def test_a_parquet_file_that_needs_too_much_memory_is_never_skipped(tmp_path, source_harness, monkeypatch):
    def no_memory(*_, **__):
        raise pa.ArrowMemoryError("malloc of size 2110669568 failed")

    write_parquet(tmp_path / "a.parquet", 2)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", no_memory)
    with pytest.raises(BadDataError, match=r"a\.parquet: malloc of size .* need more memory than the task has"):
        source_harness.rows(tmp_path, PARQUET, format="parquet", ignoreCorruptFiles=True)


def test_parquet_schema_of_one_file_or_of_all(tmp_path, source_harness):
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.array([1], pa.int64()), "b": ["x"]}), tmp_path / "2.parquet")
    os.utime(tmp_path / "1.parquet", (1, 1))
    assert source_harness.source(tmp_path, format="parquet").infer_schema() == pa.schema([("a", pa.int32())])
    merged = source_harness.source(tmp_path, format="parquet", mergeSchema=True).infer_schema()
    assert merged == pa.schema([("a", pa.int64()), ("b", pa.string())])


@pytest.mark.parametrize("kept", [0.5, 0.01])
def test_a_truncated_parquet_file(tmp_path, source_harness, kept):
    write_parquet(tmp_path / "b.parquet")
    whole = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[: int(len(whole) * kept)])
    write_parquet(tmp_path / "c.parquet", 3)
    with pytest.raises(BadDataError, match=r"b\.parquet cannot be read as parquet.*ignoreCorruptFiles"):
        source_harness.rows(tmp_path, PARQUET, format="parquet")
    source_harness.metrics.take()
    assert len(source_harness.rows(tmp_path, PARQUET, format="parquet", ignoreCorruptFiles=True)) == 3
    assert source_harness.metrics.snapshot()["corrupt_files"] == 1


AVRO = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "m", "type": {"type": "map", "values": "int"}},
        {
            "name": "n",
            "type": {
                "type": "record",
                "name": "q",
                "fields": [{"name": "l", "type": {"type": "array", "items": "string"}}],
            },
        },
    ],
}
AVRO["fields"][5]["type"]["fields"][0]["type"]["items"] = {"type": "enum", "name": "e", "symbols": ["A", "B"]}


def write_avro(path, rows=20_000):
    at = datetime(2020, 1, 1, tzinfo=UTC)
    records = [
        {"id": i, "s": None if i % 2 else "x", "at": at, "d": Decimal("1.25"), "m": {"k": 1}, "n": {"l": ["A"]}}
        for i in range(rows)
    ]
    with open(path, "wb") as file:
        fastavro.writer(file, AVRO, records, codec="deflate")


def test_avro(tmp_path, source_harness):
    write_avro(tmp_path / "a.avro")
    source = source_harness.source(tmp_path, format="avro", maxSplitBytes=10)
    schema = source.infer_schema()
    assert schema.field("d").type == pa.decimal128(6, 2) and schema.field("at").type == pa.timestamp("us", "UTC")
    assert len(source_harness.splits(source)) == 1
    wanted = pa.schema([*schema, ("gone", pa.int64()), ("_file_offset", pa.int64())])
    with pytest.raises(BadDataError, match=r"a\.avro: the column 'gone' is neither in the file nor.*missingColumns"):
        source_harness.read(source, wanted)
    source = source_harness.source(tmp_path, format="avro", maxSplitBytes=10, missingColumns="null")
    read = source_harness.read(source, wanted)
    assert read.num_rows == 20_000 and read.column("_file_offset").to_pylist() == list(range(20_000))
    row = read.slice(1, 1).to_pylist()[0]
    assert row["m"] == [("k", 1)] and row["n"] == {"l": ["A"]} and row["d"] == Decimal("1.25") and row["gone"] is None
    assert row["at"] == datetime(2020, 1, 1, tzinfo=UTC)
    with pytest.raises(BadDataError, match=r"a\.avro: field s does not fit bigint"):
        source_harness.read(source, pa.schema([("s", pa.int64())]))


def test_types_of_avro(tmp_path, source_harness):
    """As in records: numbers of two sizes, decimals in fixed bytes, a type that is named again."""
    amount = {"type": "fixed", "name": "amount", "size": 6, "logicalType": "decimal", "precision": 12, "scale": 3}
    fields = {
        "n": ["null", "int", "long"],
        "r": ["float", "double"],
        "a": amount,
        "again": ["null", "amount"],
        "u": {"type": "string", "logicalType": "uuid"},
        "at": {"type": "long", "logicalType": "timestamp-millis"},
    }
    schema = {
        "type": "record",
        "name": "x",
        "fields": [{"name": name, "type": type_} for name, type_ in fields.items()],
    }
    at, number = datetime(2020, 1, 1, tzinfo=UTC), uuid.uuid4()
    rows = [
        {"n": 2**40, "r": 0.5, "a": Decimal("1.125"), "again": None, "u": number, "at": at},
        {"n": None, "r": 1.5, "a": Decimal("-7.000"), "again": Decimal("2.500"), "u": number, "at": at},
    ]
    with open(tmp_path / "a.avro", "wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), rows)
    source = source_harness.source(tmp_path, format="avro")
    found = source.infer_schema()
    assert [field.type for field in found][:3] == [pa.int64(), pa.float64(), pa.decimal128(12, 3)]
    assert source_harness.read(source, found).to_pylist() == [{**row, "u": str(number)} for row in rows]


def test_an_avro_type_that_contains_itself_is_refused(tmp_path, source_harness):
    schema = {"type": "record", "name": "x", "fields": [{"name": "next", "type": ["null", "x"]}]}
    with open(tmp_path / "a.avro", "wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [{"next": None}])
    with pytest.raises(BadConfigurationError, match="contains itself"):
        source_harness.source(tmp_path, format="avro").infer_schema()


def test_a_broken_avro_file(tmp_path, source_harness):
    write_avro(tmp_path / "a.avro")
    whole = (tmp_path / "a.avro").read_bytes()
    (tmp_path / "a.avro").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadDataError, match=r"a\.avro cannot be read as avro"):
        source_harness.rows(tmp_path, [("id", pa.int64())], format="avro")
    rows = source_harness.rows(tmp_path, [("id", pa.int64())], format="avro", ignoreCorruptFiles=True)
    assert 0 < len(rows) < 20_000 and rows == [(i,) for i in range(len(rows))]


def test_files_as_binary(tmp_path, source_harness):
    path = tmp_path / "a.bin"
    path.write_bytes(b"\x00\xff")
    (tmp_path / "b.bin").write_bytes(b"")
    os.utime(path, ns=(0, 1_500_000_000_123_456_000))
    os.utime(tmp_path / "b.bin", (2_000_000_000, 2_000_000_000))
    source = source_harness.source(tmp_path, format="binary")
    rows = source_harness.read(source).to_pylist()
    assert rows[0]["modificationTime"] == datetime(2017, 7, 14, 2, 40, 0, 123456, UTC)
    assert [(row["path"], row["length"], row["content"]) for row in rows] == [
        (str(path), 2, b"\x00\xff"),
        (str(tmp_path / "b.bin"), 0, b""),
    ]
    assert source_harness.rows(path, [("length", pa.int64())], format="binary") == [(2,)]
    with pytest.raises(BadConfigurationError, match="format binary has no column size"):
        source.validate_schema(pa.schema([("size", pa.int64())]))


def test_metadata_columns(tmp_path, source_harness):
    path = tmp_path / "sub" / "a.txt"
    path.parent.mkdir()
    path.write_text("ab\ncd\n")
    os.utime(path, (1_500_000_000, 1_500_000_000))
    source = source_harness.source(tmp_path, format="text", includeMetadata=True)
    at = datetime.fromtimestamp(1_500_000_000, UTC)
    rows = [tuple(row.values()) for row in source_harness.read(source).to_pylist()]
    assert rows == [("ab", str(path), "a.txt", at, 6, 0), ("cd", str(path), "a.txt", at, 6, 3)]
    assert source_harness.rows(path, [("_file_size", pa.int64())], format="text") == [(6,), (6,)]
    with pytest.raises(BadConfigurationError, match="metadata column _file_size is bigint"):
        source.validate_schema(pa.schema([("_file_size", pa.string())]))
    with pytest.raises(BadConfigurationError, match="one column, value string"):
        source.validate_schema(pa.schema([("line", pa.string())]))


@pytest.mark.parametrize(
    ("error", "is_corrupt"),
    [
        (OSError("zlib inflate failed: incorrect header check"), True),
        (OSError("Couldn't deserialize thrift: TProtocolException: Invalid data"), True),
        (OSError("Corrupt snappy compressed data."), True),
        (OSError("b/in/compressed/1.parquet: Corrupt snappy compressed data."), True),
        (OSError("When reading information for key 'in/compressed/1.parquet' in bucket 'b': it went away"), False),
        (OSError("Could not open 1.parquet"), False),
        (OSError("AWS Error UNKNOWN (HTTP status 500) during GetObject operation: truncated answer"), False),
        (OSError(errno.ECONNRESET, "compressed stream reset", "x.parquet"), False),
    ],
)
def test_an_error_about_the_way_to_a_file_is_none_about_its_bytes(error, is_corrupt):
    """Whatever the file is called: it would be skipped with ``ignoreCorruptFiles``, and never read again."""
    assert _says_corrupt(error, "b/in/compressed/1.parquet") == is_corrupt


def test_a_storage_that_is_away_breaks_no_avro_file(tmp_path, monkeypatch):
    """Storages raise OSError or RetriableError while a file is read: neither is about its bytes."""
    path = tmp_path / "a.avro"
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}, [{"id": 1}])
    options = {"path": str(path), "format": "avro", "ignoreCorruptFiles": "true", "retryTimeout": "0s"}
    query = source_query(FileSystemConnector(), options, pa.schema([("id", pa.int64())]))
    batch = query.plan()

    def away(self, size):
        raise RetriableError("away")

    monkeypatch.setattr(PlainStream, "read", away)
    with pytest.raises(RetriableError, match="away"):
        query.read(batch)
    query.stop()


AT = datetime(2024, 1, 1, 12, tzinfo=UTC)
#: A value that Arrow's cast to a type changes without an error, and one of the same type that fits.
CHANGED = {
    "too large": (pa.float64(), pa.float32(), 1e300, 0.5),
    "digits": (pa.float64(), pa.float32(), 0.1, float("nan")),
    "the time of day": (pa.timestamp("us", "UTC"), pa.date32(), AT, AT.replace(hour=0)),
    "which number": (pa.int64(), pa.bool_(), 5, 1),
}


@pytest.mark.parametrize("within", [lambda t: t, pa.list_, lambda t: pa.struct([("x", t)])], ids=["", "list", "struct"])
@pytest.mark.parametrize("what", CHANGED)
def test_a_type_that_would_change_values_is_refused(tmp_path, source_harness, what, within):
    given, wanted, changed, fits = CHANGED[what]
    shape = within(given)

    def put(value):
        inner = [value] if pa.types.is_list(shape) else {"x": value} if pa.types.is_struct(shape) else value
        pq.write_table(pa.table({"a": pa.array([inner, None], shape)}), tmp_path / "a.parquet")

    put(fits)
    assert len(source_harness.rows(tmp_path, [("a", within(wanted))], format="parquet")) == 2
    put(changed)
    with pytest.raises(BadDataError, match=r"a\.parquet: column 'a' .* would be another value"):
        source_harness.rows(tmp_path, [("a", within(wanted))], format="parquet")
    rest = {"rescuedDataColumn": "rest"}
    rows = source_harness.rows(tmp_path, [("a", within(wanted)), ("rest", pa.string())], format="parquet", **rest)
    assert rows[0][1] is not None and rows[1] == (None, None)


@pytest.mark.parametrize("names", [["aB", "ab"], ["AB", "AB"]])
@pytest.mark.parametrize("nested", [False, True])
def test_a_name_that_may_be_several_columns_is_refused(tmp_path, source_harness, names, nested):
    """Spark refuses it as well: the first would hide the others."""
    arrays = [pa.array([1]), pa.array([2])]
    table = pa.Table.from_arrays(arrays, names=names)
    wanted = pa.struct([("AB", pa.int64())])
    if nested:
        table = pa.table({"s": pa.StructArray.from_arrays(arrays, names=names)})
    pq.write_table(table, tmp_path / "a.parquet")
    schema = [("s", wanted)] if nested else list(wanted)
    with pytest.raises(BadDataError, match=r"several columns or fields that may be 'AB': \w+, \w+; write"):
        source_harness.rows(tmp_path, schema, format="parquet")
    if names[0] != names[1]:
        schema = [("s", pa.struct([("ab", pa.int64())]))] if nested else [("ab", pa.int64())]
        assert source_harness.rows(tmp_path, schema, format="parquet") == [({"ab": 2},) if nested else (2,)]
