"""Avro files of every codec, and what is wrong with some. What Spark writes is in test_source_spark.py."""

from __future__ import annotations

import bz2
import io
import json
import lzma
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
