"""Every format: what is written reads back as the same rows, by readers that are not ours."""

from __future__ import annotations

import decimal
import gzip
import io
import json
import struct
import sys
from datetime import date, datetime, timezone

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, BadDataError
from penstock_filesystem.formats import WriteOptions, create_writer
from penstock_filesystem.options import SINK_OPTIONS
from penstock_filesystem.sink.staging import StagedFile

UTC = timezone.utc
MIXED = pa.schema(
    [
        ("i", pa.int32()),
        ("s", pa.string()),
        ("d", pa.float64()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("day", pa.date32()),
        ("c", pa.decimal128(12, 3)),
    ]
)
ROWS = [
    {"i": 1, "s": 'q"x\\y', "d": 1.5, "b": True, "t": datetime(2026, 1, 2, 3, 4, 5, 123456, UTC)},
    {"i": None, "s": None, "d": None, "b": None, "t": None},
    {"i": -3, "s": "", "d": 100.0, "b": False, "t": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)},
    {"i": 4, "s": "a,b;c\t'\x01é€😀", "d": 1e20, "b": None, "t": datetime(2262, 1, 1, tzinfo=UTC)},
]
for row in ROWS:
    row |= {"n": row["t"] and row["t"].replace(tzinfo=None), "day": row["t"] and date(2013, 1, 1)}
    row["c"] = None if row["i"] is None else decimal.Decimal("-1.250")


def writer_of(schema, **given):
    return create_writer(schema, WriteOptions.from_values(SINK_OPTIONS.parse({"path": "/x", **given}, owner="sink")))


def encoded(rows, schema, salt="q", **given):
    """A file's bytes, and the size of its header."""
    made = writer_of(schema, **given)
    made.validate()
    stream = io.BytesIO()
    encoder = made.encoder(StagedFile("", stream), salt)
    encoder.write(pa.RecordBatch.from_pylist(rows, schema=schema))
    encoder.finish()
    return stream.getvalue(), encoder.header_size


def joined(pieces, schema, **given):
    """Files of one query joined as the roller joins them."""
    files = [encoded(rows, schema, **given) for rows in pieces]
    return files[0][0] + b"".join(data[header:] for data, header in files[1:])


def test_parquet():
    data, _ = encoded(ROWS, MIXED, format="parquet")
    assert pq.read_table(io.BytesIO(data)).to_pylist() == ROWS
    assert pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).compression == "ZSTD"


def test_json(tmp_path):
    data, header = encoded(ROWS, MIXED, format="json")
    assert header == 0
    lines = [json.loads(line) for line in data.decode().splitlines()]
    assert lines[1] == {}
    assert lines[0] == {
        "i": 1,
        "s": 'q"x\\y',
        "d": 1.5,
        "b": True,
        "t": "2026-01-02T03:04:05.123456Z",
        "n": "2026-01-02T03:04:05.123456",
        "day": "2013-01-01",
        "c": -1.25,
    }
    assert [line.get("s") for line in lines] == [row["s"] for row in ROWS]
    assert b'"d":100.0' in data and b'"c":-1.250' in data


def test_json_nested():
    entry = pa.struct([("x", pa.int64()), ("y", pa.string())])
    schema = pa.schema(
        [
            ("l", pa.list_(pa.float64())),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("e", entry),
            ("z", pa.list_(entry)),
            ("bin", pa.binary()),
        ]
    )
    rows = [
        {"l": [1.0, None], "m": [("a", 1), ('"', None)], "e": {"x": 1, "y": None}, "z": [{"x": 2, "y": "u"}, None]},
        {"l": None, "m": None, "e": None, "z": None, "bin": b"xy"},
        {"l": [], "m": [], "e": {"x": None, "y": None}, "z": []},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    data, _ = encoded(rows, schema, format="json")
    expected = [
        {"l": [1.0, None], "m": {"a": 1, '"': None}, "e": {"x": 1}, "z": [{"x": 2, "y": "u"}, None]},
        {"bin": "eHk="},
        {"l": [], "m": {}, "e": {}, "z": []},
    ]
    assert [json.loads(line) for line in data.splitlines()] == expected
    made = writer_of(schema, format="json")
    sliced = made.lines(batch.slice(1)).to_pylist()  # type: ignore[attr-defined]
    assert [json.loads(line) for line in sliced] == expected[1:]


def test_json_numbers_that_json_lacks_and_nulls_kept():
    schema = pa.schema([("d", pa.float64())])
    data, _ = encoded(
        [{"d": float("nan")}, {"d": float("-inf")}, {"d": None}], schema, format="json", ignoreNullFields="false"
    )
    assert data == b'{"d":"NaN"}\n{"d":"-Infinity"}\n{"d":null}\n'


@pytest.mark.parametrize("quoting", [{}, {"quoteAll": "true"}, {"escape": '"', "sep": ";", "header": "true"}])
def test_csv(tmp_path, quoting):
    data, _ = encoded(ROWS, MIXED, format="csv", **quoting)
    path = tmp_path / "x.csv"
    path.write_bytes(data)
    escape, sep, header = quoting.get("escape", "\\"), quoting.get("sep", ","), "header" in quoting
    columns = ", ".join(f"'{name}': 'VARCHAR'" for name in MIXED.names)
    found = duckdb.execute(
        f"select s, i, t, c from read_csv($path, columns={{{columns}}}, header={header}, delim='{sep}', quote='\"', "
        f"escape=$escape, auto_detect=false, allow_quoted_nulls=false)",
        {"path": str(path), "escape": escape},
    ).fetchall()
    assert [row[0] for row in found] == [row["s"] for row in ROWS]
    assert found[0][1:] == ("1", "2026-01-02T03:04:05.123456Z", "-1.250")


def test_csv_lines():
    schema = pa.schema([("a", pa.string()), ("b", pa.float64()), ("c,d", pa.date32())])
    rows = [{"a": "x\ny", "b": float("inf"), "c,d": date(2013, 1, 2)}, {"a": "\\", "b": float("nan")}, {"a": "\\,"}]
    data, header = encoded(rows, schema, format="csv", header="true", nullValue="-", dateFormat="dd.MM.yyyy")
    assert data == b'a,b,"c,d"\n"x\ny",Infinity,02.01.2013\n\\,NaN,-\n"\\\\,",-,-\n'
    assert data[:header] == b'a,b,"c,d"\n'


def test_csv_of_one_column_keeps_rows_without_a_value():
    schema = pa.schema([("a", pa.string())])
    data, _ = encoded([{"a": None}, {"a": "x"}], schema, format="csv")
    assert data == b'""\nx\n'


def test_text():
    schema = pa.schema([("value", pa.string())])
    data, _ = encoded([{"value": "a"}, {"value": None}, {"value": "b c"}], schema, format="text", lineSep="|")
    assert data == b"a||b c|"


def test_avro():
    data, header = encoded(ROWS, MIXED, format="avro")
    assert list(fastavro.reader(io.BytesIO(data))) == ROWS
    assert 0 < header < len(data)


def test_avro_nested():
    entry = pa.struct([("x", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    deep = pa.list_(pa.map_(pa.string(), pa.int64()))
    schema = pa.schema(
        [("l", pa.list_(entry)), ("m", pa.map_(pa.string(), pa.list_(pa.int32()))), ("b", pa.binary()), ("deep", deep)]
    )
    rows = [
        {"l": [{"x": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)}, None], "m": {"k": [1, None]}, "b": b"\0"},
        {"l": None, "m": None, "b": None, "deep": None},
    ]
    rows[0]["deep"] = [{"u": 1}, None]
    given = [{**rows[0], "m": [("k", [1, None])], "deep": [[("u", 1)], None]}, rows[1]]
    assert list(fastavro.reader(io.BytesIO(encoded(given, schema, format="avro")[0]))) == rows


@pytest.mark.parametrize("codec", ["deflate", "none"])
def test_joined_avro(codec):
    data = joined([ROWS, ROWS[:2], ROWS[2:]], MIXED, format="avro", compression=codec)
    assert list(fastavro.reader(io.BytesIO(data))) == ROWS + ROWS


def test_joined_gzip_reads_as_one_file(tmp_path):
    schema = pa.schema([("i", pa.int64())])
    pieces = [[{"i": 1}], [{"i": 2}], [{"i": 3}]]
    data = joined(pieces, schema, format="csv", compression="gzip", header="true")
    assert gzip.decompress(data) == b"i\n1\n2\n3\n"
    path = tmp_path / "x.csv.gz"
    path.write_bytes(data)
    assert pyarrow.csv.read_csv(path)["i"].to_pylist() == [1, 2, 3]
    assert duckdb.sql(f"select i from read_csv('{path}')").fetchall() == [(1,), (2,), (3,)]


def test_joined_zstd_reads_as_one_file(tmp_path):
    schema = pa.schema([("i", pa.int64())])
    path = tmp_path / "x.json.zst"
    path.write_bytes(joined([[{"i": 1}], [{"i": 2}]], schema, format="json", compression="zstd"))
    assert pyarrow.json.read_json(pa.input_stream(str(path), compression="zstd"))["i"].to_pylist() == [1, 2]


def read_sequence_file(data):
    """A reader of its own, from the published layout: class names and the raw records."""
    assert data[:4] == b"SEQ\x06"
    at, names = 4, []
    for _ in range(2):
        names.append(data[at + 1 : at + 1 + data[at]].decode())
        at += 1 + data[at]
    assert data[at : at + 6] == b"\0" * 6
    sync = data[at + 6 : at + 22]
    at += 22
    records, since = [], 0
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        if length == -1:
            assert data[at + 4 : at + 20] == sync
            at, since = at + 20, 0
            continue
        (key_length,) = struct.unpack_from(">i", data, at + 4)
        body = data[at + 8 : at + 8 + length]
        records.append((body[:key_length], body[key_length:]))
        at += 8 + length
        since += 8 + length
        assert since < 2000 + 8 + length
    return names, records


def test_joined_sequence_file():
    schema = pa.schema([("value", pa.string()), ("key", pa.int64())])
    rows = [{"key": i, "value": "v" * i} for i in range(300)]
    names, records = read_sequence_file(joined([rows[:100], rows[100:]], schema, format="sequencefile"))
    assert names == ["org.apache.hadoop.io.LongWritable", "org.apache.hadoop.io.Text"]
    assert [struct.unpack(">q", key)[0] for key, _ in records] == list(range(300))
    assert records[5][1] == b"\x05vvvvv"
    assert records[128][1][:2] == struct.pack("bB", -113, 128)
    assert records[299][1][:3] == struct.pack("b", -114) + struct.pack(">H", 299)


def test_sequence_file_refuses_null():
    schema = pa.schema([("key", pa.int64()), ("value", pa.string())])
    with pytest.raises(BadDataError, match="no null"):
        encoded([{"key": 1, "value": None}], schema, format="sequencefile")


#: Python's own CSV reader takes NUL only from 3.11 on.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0" if sys.version_info < (3, 11) else ""), max_size=8)


@settings(max_examples=60)
@given(st.lists(st.lists(TEXT, min_size=2, max_size=2), min_size=1, max_size=20))
def test_any_text_survives_json_and_csv(rows):
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    dicts = [{"a": a, "b": b} for a, b in rows]
    data, _ = encoded(dicts, schema, format="json")
    assert [json.loads(line) for line in data.decode().split("\n")[:-1]] == dicts
    data, _ = encoded(dicts, schema, format="csv", escape='"')
    import csv

    found = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    assert found == rows


@pytest.mark.parametrize(
    ("given", "schema", "message"),
    [
        ({"format": "text"}, {"a": pa.string(), "b": pa.string()}, "exactly one string column, there are: a string, b"),
        ({"format": "text"}, {"a": pa.int64()}, "exactly one string column"),
        ({"format": "csv"}, {"a": pa.list_(pa.int64())}, "can't hold column 'a' of type array"),
        ({"format": "csv"}, {"a": pa.binary()}, "cast it to string"),
        ({"format": "json"}, {"a": pa.map_(pa.int64(), pa.int64())}, "keys of a map must be strings"),
        ({"format": "json"}, {"a": pa.month_day_nano_interval()}, "can't hold column 'a'"),
        ({"format": "avro"}, {"a b": pa.int64()}, "'a b' is not a name that Avro allows"),
        ({"format": "avro"}, {"a": pa.duration("us")}, "avro has no form for 'a'"),
        ({"format": "parquet"}, {"a": pa.null()}, "no type"),
        ({"format": "sequencefile"}, {"k": pa.string(), "v": pa.string()}, "named key and value"),
        ({"format": "sequencefile"}, {"key": pa.float64(), "value": pa.string()}, "can't hold column 'key'"),
        ({"format": "sequencefile", "compression": "gzip"}, {"key": pa.string()}, "does not go with"),
        ({"format": "csv", "quote": "''"}, {"a": pa.string()}, "single ASCII character"),
        ({"format": "csv", "timestampFormat": "yyyy-QQ"}, {"a": pa.string()}, "timestampFormat"),
    ],
)
def test_schemas_that_do_not_fit(given, schema, message):
    with pytest.raises(BadConfigurationError, match=message):
        encoded([], pa.schema(list(schema.items())), **given)


def test_fingerprint_tells_what_can_be_joined():
    def fingerprint(kind="int64", **given):
        schema = pa.schema([("a", kind)])
        return writer_of(schema, **given).fingerprint

    same = [{"format": "csv"}, {"format": "csv", "maxPartSize": "1kb"}]
    others = [{"format": "csv", "header": "true"}, {"format": "csv", "compression": "gzip"}, {"format": "json"}]
    assert len({fingerprint(**one) for one in same}) == 1
    assert len({fingerprint(**one) for one in same + others}) == 4
    assert fingerprint() != fingerprint("int32")


def test_row_groups_have_as_many_rows_as_the_option_says():
    schema = pa.schema([("id", pa.int64())])
    data, _ = encoded([{"id": number} for number in range(10)], schema, format="parquet", rowGroupSize="3")
    file = pq.ParquetFile(io.BytesIO(data))
    assert [file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)] == [3, 3, 3, 1]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, b'"a;""",,"x,y",1.5\n"",2026-01-02T03:04:05.000000Z,,\n'),
        ({"quoteAll": "true"}, b'"a;""",,"x,y","1.5"\n'),
        ({"quote": "'"}, b"a;\",,'x,y',1.5\n"),
        ({"emptyValue": "EMPTY"}, b'"a;""",,"x,y",1.5\nEMPTY,'),
        ({"timestampFormat": "dd.MM.yyyy HH:mm"}, b'"a;""",,"x,y",1.5\n"",02.01.2026 03:04,,\n'),
    ],
)
def test_csv_as_the_options_say(given, expected):
    schema = pa.schema([("s", pa.string()), ("t", pa.timestamp("us", "UTC")), ("u", pa.string()), ("f", pa.float64())])
    rows = [{"s": 'a;"', "u": "x,y", "f": 1.5}, {"s": "", "t": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)}]
    data, _ = encoded(rows, schema, format="csv", **{"escape": '"', **given})
    assert data.startswith(expected), data
