"""Avro files of every codec, and what is wrong with some. What Spark writes is in test_source_spark.py."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import tracemalloc
import zlib

import fastavro
import pyarrow as pa
import pytest

from penstock.errors import BadDataError
from penstock_filesystem.formats.avro import _plain

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": "string"}]}
COLUMNS = [("id", pa.int64()), ("s", pa.string())]
ROWS = [(number, f"text {number**7}") for number in range(3000)]


def raw_deflate(data):
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


COMPRESS = {
    "null": bytes,
    "deflate": raw_deflate,
    "snappy": lambda data: pa.compress(data, "snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big"),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def number(value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


def written(codec, rows=ROWS, block_rows=1000, compress=None):
    """A file with a codec that fastavro need not know: its blocks, compressed here."""
    out = io.BytesIO()
    meta = {"avro.codec": codec.encode(), "avro.schema": json.dumps(SCHEMA).encode()}
    sync = b"0123456789abcdef"
    fastavro.schemaless_writer(out, {"type": "map", "values": "bytes"}, meta)
    parts = [b"Obj\x01", out.getvalue(), sync]
    for start in range(0, len(rows), block_rows):
        block = io.BytesIO()
        some = rows[start : start + block_rows]
        for one in some:
            fastavro.schemaless_writer(block, SCHEMA, dict(zip(("id", "s"), one, strict=True)))
        data = (compress or COMPRESS[codec])(block.getvalue())
        parts += [number(len(some)), number(len(data)), data, sync]
    return b"".join(parts)


@pytest.mark.parametrize("codec", COMPRESS)
def test_every_codec(tmp_path, source_harness, codec):
    path = tmp_path / "a.avro"
    path.write_bytes(whole := written(codec))
    assert source_harness.source(path, format="avro").infer_schema() == pa.schema(COLUMNS)
    assert source_harness.rows(path, COLUMNS, format="avro") == ROWS
    # Wherever it ends, it is said; what was read before is whole.
    for end in (len(whole) - 1, len(whole) - 17, len(whole) // 2, 200, 3, *range(len(whole) - 40, len(whole) - 20, 5)):
        path.write_bytes(whole[:end])
        with pytest.raises(BadDataError, match=r"a\.avro cannot be read as avro"):
            source_harness.rows(path, COLUMNS, format="avro")
        rows = source_harness.rows(path, COLUMNS, format="avro", ignoreCorruptFiles=True)
        assert rows == ROWS[: len(rows)] and len(rows) in (0, 1000, 2000)
    path.write_bytes(written(codec, rows=[]))
    assert source_harness.rows(path, COLUMNS, format="avro") == []


@pytest.mark.parametrize("codec", [one for one in COMPRESS if one != "null"])
def test_a_block_that_is_damaged_or_too_large(tmp_path, source_harness, monkeypatch, codec):
    path = tmp_path / "a.avro"
    path.write_bytes(written(codec, compress=lambda data: COMPRESS[codec](data)[:-5] + b"\xff" * 5))
    with pytest.raises(BadDataError, match=r"a\.avro cannot be read as avro"):
        source_harness.rows(path, COLUMNS, format="avro")
    monkeypatch.setattr(_plain, "MOST_BLOCK_BYTES", 10_000)
    path.write_bytes(written(codec))
    with pytest.raises(BadDataError, match=r"a\.avro cannot be read as avro: .*more than 10000 bytes"):
        source_harness.rows(path, COLUMNS, format="avro")
    monkeypatch.setattr(_plain, "MOST_BLOCK_BYTES", 100_000)
    assert source_harness.rows(path, COLUMNS, format="avro") == ROWS


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_a_block_whose_compressed_bytes_are_cut_off(tmp_path, source_harness, codec):
    (tmp_path / "a.avro").write_bytes(written(codec, compress=lambda data: COMPRESS[codec](data)[:-20]))
    with pytest.raises(BadDataError, match="a block ends inside of its compressed bytes"):
        source_harness.rows(tmp_path, COLUMNS, format="avro")


def test_a_block_of_snappy_that_is_not_what_its_checksum_is_of(tmp_path, source_harness):
    other = COMPRESS["snappy"]

    def compress(data):
        return other(data.replace(b"text", b"txet"))[:-4] + zlib.crc32(data).to_bytes(4, "big")

    (tmp_path / "a.avro").write_bytes(written("snappy", compress=compress))
    with pytest.raises(BadDataError, match="a block is not what its checksum is of"):
        source_harness.rows(tmp_path, COLUMNS, format="avro")


def test_a_block_with_another_sync_marker(tmp_path, source_harness):
    whole = bytearray(written("null"))
    whole[-1] ^= 1
    (tmp_path / "a.avro").write_bytes(bytes(whole))
    with pytest.raises(BadDataError, match="a block does not end with the file's sync marker"):
        source_harness.rows(tmp_path, COLUMNS, format="avro")


def test_metadata_that_says_how_many_bytes_it_has(tmp_path, source_harness):
    """A part of a map may have a negative count, and its size behind it."""
    entries = [b"avro.schema", json.dumps(SCHEMA).encode(), b"avro.codec", b"null"]
    encoded = b"".join(number(len(one)) + one for one in entries)
    head = b"Obj\x01" + number(-2) + number(len(encoded)) + encoded + b"\0"
    whole = written("null")
    (tmp_path / "a.avro").write_bytes(head + whole[whole.index(b"0123456789abcdef") :])
    assert source_harness.rows(tmp_path, COLUMNS, format="avro") == ROWS


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard"])
def test_a_block_that_would_be_large_is_never_in_memory(codec, monkeypatch):
    data = COMPRESS[codec](bytes(64 << 20))
    monkeypatch.setattr(_plain, "MOST_BLOCK_BYTES", 1 << 20)
    tracemalloc.start()
    try:
        assert len(_plain.CODECS[codec](data)) > 1 << 20
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_an_unknown_codec_is_never_skipped(tmp_path, source_harness):
    path = tmp_path / "a.avro"
    path.write_bytes(written("lz4", compress=bytes))
    for more in ({}, {"ignoreCorruptFiles": True}):
        with pytest.raises(BadDataError, match=r"a\.avro: its codec is 'lz4'; known are null, deflate, snappy"):
            source_harness.rows(path, COLUMNS, format="avro", **more)


@pytest.mark.parametrize("schema", ["long", {"type": "array", "items": "double"}, [SCHEMA, "null"]])
def test_values_that_are_no_records(tmp_path, source_harness, schema):
    value = {"long": 1}.get(str(schema), [0.5] if isinstance(schema, dict) else {"id": 1, "s": "x"})
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, [value])
    with pytest.raises(BadDataError, match=r"a\.avro cannot be read as avro: .*its values are not records"):
        source_harness.rows(tmp_path, COLUMNS, format="avro")


def test_values_that_would_become_others_are_refused(tmp_path, source_harness):
    """Doubles as floats, and times as dates: Arrow makes the next one of them, without an error."""
    at = {"type": "long", "logicalType": "timestamp-micros"}
    inner = {"type": "record", "name": "n", "fields": [{"name": "x", "type": "double"}]}
    fields = [{"name": name, "type": type_} for name, type_ in (("x", "double"), ("n", inner), ("at", at))]
    row = {"x": 0.5, "n": {"x": float("nan")}, "at": 0}
    floats = [("x", pa.float32()), ("n", pa.struct([("x", pa.float32())]))]

    def rows(columns, **more):
        with (tmp_path / "a.avro").open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [{**row, **more}])
        return source_harness.rows(tmp_path, columns, format="avro")

    assert rows(floats[:1]) == [(0.5,)] and len(rows(floats)) == 1
    for more in ({"x": 1e300}, {"x": 0.1}, {"n": {"x": 1e300}}):
        with pytest.raises(BadDataError, match="would be another value"):
            rows(floats, **more)
    with pytest.raises(BadDataError, match="is not a date"):
        rows([("at", pa.date32())], at=1)
