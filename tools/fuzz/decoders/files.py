"""Files of every format that is read, and compressed ones."""

from __future__ import annotations

import bz2
import decimal
import gzip
import io
import json
import lzma
import struct
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from penstock.metrics import Metrics
from penstock.source import ReaderContext
from penstock_filesystem import FileSystemConnector
from penstock_filesystem.formats import _blocks, create_writer
from penstock_filesystem.formats.avro import _plain
from penstock_filesystem.formats.sequence import _layout
from penstock_filesystem.options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions
from penstock_filesystem.source._split import FileSplit

# A row may have a gigabyte, which a few bytes can claim to have: limits of tests are smaller.
_blocks.LARGEST_ROW = 16 << 20
_plain.MOST_BLOCK_BYTES = 16 << 20
_layout.MOST_BYTES = 16 << 20

ROWS = [
    {
        "a": n,
        "t": f"text {n}" if n % 3 else None,
        "d": decimal.Decimal(n).scaleb(-2),
        "at": datetime(2024, 1, 1 + n, tzinfo=timezone.utc),
        "f": n / 7,
        "b": bool(n % 2),
    }
    for n in range(20)
]
COLUMNS = pa.schema(
    [
        ("a", pa.int64()),
        ("t", pa.string()),
        ("d", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("f", pa.float64()),
        ("b", pa.bool_()),
    ]
)
NESTED = pa.schema([*COLUMNS, ("m", pa.map_(pa.string(), pa.int32())), ("l", pa.list_(pa.struct([("x", pa.int32())])))])
NESTED_ROWS = [{**row, "m": [("k", 1)], "l": [{"x": 1}, {"x": None}]} for row in ROWS]
TEXT = pa.schema([("value", pa.string())])
PAIRS = pa.schema([("key", pa.int64()), ("value", pa.string())])
RAW_PAIRS = pa.schema([("key", pa.int64()), ("value", pa.binary())])


@cache
def folder() -> Path:
    """Returns where this process puts the file that it reads; it goes with the process's temporary directory."""
    return Path(tempfile.mkdtemp(prefix="fuzz-files-"))


def file_reader(name: str, schema: pa.Schema, **options: str) -> Callable[[bytes], int]:
    """Returns what reads a file as a task does."""

    @cache
    def source() -> Any:
        connector = FileSystemConnector()
        given = {"path": str(folder()), "format": name.split(".")[0], **options}
        return connector.create_source(SOURCE_OPTIONS.parse(given, owner="source"))

    def read(data: bytes) -> int:
        path = folder() / f"part.{name}"
        path.write_bytes(data)
        middle = len(data) // 2 if name in ("parquet", "orc") and len(data) > 1 else len(data)
        ranges = [(0, middle), (middle, len(data) - middle)]
        mtime_ns = path.stat().st_mtime_ns
        splits = [FileSplit(str(path), mtime_ns, len(data), *one) for one in ranges if one == ranges[0] or one[1]]
        return sum(map(read_split, splits))

    def check(batch: pa.RecordBatch) -> None:
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            # Texts in Parquet and ORC are taken as they are, as Spark takes them.
            if name not in ("parquet", "orc") or "Invalid UTF8" not in str(error):
                raise

    def read_split(split: FileSplit) -> int:
        context = ReaderContext(schema, Metrics())
        reader, emitter = source().create_reader(context), source().create_emitter(context)
        state, rows = emitter.split_state(split), 0
        reader.handle_splits_changes([split])
        try:
            while not (fetched := reader.fetch()).finished_splits:
                for _, element in fetched.records:
                    for batch in emitter.emit_record(element, state):
                        check(batch)
                        rows += batch.num_rows
        finally:
            reader.close()
        return rows

    return read


def schema_reader(name: str) -> Callable[[bytes], object]:
    """Returns what takes a schema from a file, as the driver does."""
    directory = f"infer-{name}"

    @cache
    def source() -> Any:
        connector = FileSystemConnector()
        given = {"path": str(folder() / directory), "format": name, "header": "true"}
        return connector.create_source(SOURCE_OPTIONS.parse(given, owner="source"))

    def read(data: bytes) -> object:
        (folder() / directory).mkdir(exist_ok=True)
        (folder() / directory / "file").write_bytes(data)
        return source().infer_schema()

    return read


def written(name: str, schema: pa.Schema, rows: Sequence[Mapping[str, Any]], **options: str) -> bytes:
    """Returns a file as the sink writes it."""
    values = SINK_OPTIONS.parse({"path": "/tmp/x", "format": name, **options}, owner="sink")
    writer = create_writer(schema, SinkOptions.from_values(values).format)
    out = io.BytesIO()
    encoder = writer.encoder(out, "salt")
    encoder.write(pa.RecordBatch.from_pylist(rows, schema))
    encoder.finish()
    return out.getvalue()


def avro_seeds() -> list[bytes]:
    """Returns files of each compression."""
    return [written("avro", NESTED, NESTED_ROWS, compression=codec) for codec in ("none", "deflate")]


def _avro(schema: object, block: bytes, count: int = 1, size: int | None = None, codec: bytes = b"null") -> bytes:
    """Returns a file with one block."""
    text = json.dumps(schema).encode()
    head = b"Obj\x01\x04" + _long(11) + b"avro.schema" + _long(len(text)) + text
    head += _long(10) + b"avro.codec" + _long(len(codec)) + codec + b"\0" + bytes(16)
    return head + _long(count) + _long(len(block) if size is None else size) + block + bytes(16)


def _long(number: int) -> bytes:
    bits, found = number << 1, bytearray()
    while bits >= 0x80:
        found.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*found, bits])


def refused_avro() -> list[bytes]:
    """Returns files that stand for more than they have."""

    def record(type_: object) -> object:
        return {"type": "record", "name": "r", "fields": [{"name": "a", "type": type_}]}

    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    large = packer.compress(_long(17 << 20) + bytes(17 << 20)) + packer.flush()
    return [
        _avro(record("string"), large, codec=b"deflate"),
        _avro(record("long"), b"\x02", size=1 << 40),
        _avro(record({"type": "array", "items": "null"}), _long(1 << 40) + b"\0"),
        _avro({"type": "record", "name": "r", "fields": []}, b"", count=1 << 40),
        _avro(record(["null", "r"]), b"\x02" * 60_000 + b"\0"),  # nested 60,000 times
        _avro(record("string"), _long(1 << 40) + b"a"),
    ]


def sequence_seeds() -> list[bytes]:
    """Returns files of each compression, in records and in blocks."""
    rows = [{"key": n, "value": f"text {n}" * n} for n in range(40)]
    made = [written("sequencefile", PAIRS, rows, compression=codec) for codec in ("none", "deflate", "snappy", "lz4")]
    return [*made, _sequence(_record(zlib.compress(b"a")) + _record(zlib.compress(b"")), "DefaultCodec")]


def _sequence(rest: bytes, codec: str, in_blocks: bytes = b"\0") -> bytes:
    """Returns a file with a codec."""
    names = [f"org.apache.hadoop.io.{name}" for name in ("LongWritable", "BytesWritable", f"compress.{codec}")]
    first, second, third = (bytes([len(name)]) + name.encode() for name in names)
    return b"SEQ\x06" + first + second + b"\1" + in_blocks + third + bytes(4) + b"s" * 16 + rest


def _record(value: bytes) -> bytes:
    return struct.pack(">iiq", 8 + len(value), 8, 7) + value


def refused_sequences() -> list[bytes]:
    """Returns files that stand for more than they have."""
    large = zlib.compress(bytes(17 << 20))
    block = b"\xff" * 4 + b"s" * 16 + b"\x8c\x7f\xff\xff\xff"  # two billion records
    packed = b"".join(b"\x8e" + struct.pack(">H", len(one)) + one for one in (zlib.compress(bytes(15 << 20)),) * 4)
    return [
        _sequence(_record(large), "DefaultCodec"),
        _sequence(struct.pack(">ii", 1 << 30, 8), "DefaultCodec"),
        _sequence(block + packed, "DefaultCodec", b"\1"),
        b"SEQ\x06\x8c\x7f\xff\xff\xff",
    ]


def parquet_seeds() -> list[bytes]:
    """Returns files of each compression and both versions of pages."""
    table, found = pa.Table.from_pylist(NESTED_ROWS, NESTED), []
    for codec, version in (("none", "1.0"), ("snappy", "2.0"), ("zstd", "1.0"), ("gzip", "1.0")):
        out = io.BytesIO()
        pq.write_table(table, out, compression=codec, data_page_version=version, row_group_size=10)
        found.append(out.getvalue())
    return found


def refused_parquet() -> list[bytes]:
    """Returns a file whose footer has too many levels in a histogram, for which pyarrow ends the process."""
    whole = bytearray(parquet_seeds()[0])
    return [bytes(whole[:-9]) + b"\x7f" + bytes(whole[-8:]), bytes(whole[:-1]), b"PAR1" + b"\xff" * 12 + b"PAR1"]


def orc_seeds() -> list[bytes]:
    """Returns files of each compression, with several stripes."""
    table, found = pa.Table.from_pylist(NESTED_ROWS * 100, NESTED), []
    for codec in ("uncompressed", "zlib", "snappy", "lz4", "zstd"):
        out = io.BytesIO()
        orc.write_table(table, out, compression=codec, stripe_size=1024, batch_size=64)
        found.append(out.getvalue())
    return found


def refused_orc() -> list[bytes]:
    """Returns files that are cut off, and one whose footer would be longer than the file."""
    whole = orc_seeds()[0]
    return [whole[:-1], whole[: len(whole) // 2], b"ORC" + b"\x08\xff\x7f\x82\xf4\x03\x03ORC" + b"\x09"]


def csv_seeds() -> list[bytes]:
    """Returns files with and without a header line, and with quotes."""
    return [
        written("csv", COLUMNS, ROWS),
        b'a,t\n1,"x ""y"", z",3.5,2024-01-01T00:00:00Z,1e3,true\n2,"a\nb",,,NaN,false\n',
    ]


def json_seeds() -> list[bytes]:
    """Returns lines of objects."""
    return [written("json", NESTED, NESTED_ROWS), b'{"a": 1}\n{"a": "x"}\n\n{"t": {"b": [1, 2]}, "m": {"k": 3}}\n']


def text_seeds() -> list[bytes]:
    """Returns lines, some of them not UTF-8."""
    return [b"one\ntwo\r\nthree\rfour", "grüße\n".encode() * 20, b"\xff\xfe\n\x00\n"]


def packed_seeds(suffix: str) -> list[bytes]:
    """Returns lines, compressed."""
    plain = b"".join(b"line %d\n" % n for n in range(200))
    by_codec: dict[str, Sequence[Callable[[bytes], bytes]]] = {
        "gz": [gzip.compress],
        "bz2": [bz2.compress],
        "xz": [lzma.compress],
        "zst": [lambda data: pa.compress(data, "zstd", asbytes=True)],
        "deflate": [zlib.compress],
        "lz4": [lambda data: pa.compress(data, "lz4", asbytes=True), lambda data: _hadoop("lz4_raw", data)],
        "snappy": [lambda data: _hadoop("snappy", data)],
    }
    return [compress(plain) for compress in by_codec[suffix]]


def _hadoop(codec: str, plain: bytes) -> bytes:
    """Returns two blocks, as Hadoop's codecs write them."""
    small: bytes = pa.compress(plain, codec, asbytes=True)
    return (struct.pack(">ii", len(plain), len(small)) + small) * 2


def bombs() -> list[bytes]:
    """Returns some kilobytes that become one very long line."""
    return [pa.compress(bytes(100 << 20), "zstd", asbytes=True)]
