"""JSON: types, nested values, rows that do not fit in each mode."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, BadDataError

UTC = timezone.utc
CORRUPT = ("_corrupt_record", pa.string())


@pytest.fixture
def json_rows(tmp_path, source_harness):
    def read(data, schema, **options):
        path = tmp_path / "in.json"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return source_harness.rows(path, schema, format="json", **options)

    return read


@pytest.mark.parametrize("bad", ["", "nonsense\n"])  # a row that does not fit sends its neighbours the slow way
def test_every_type_both_ways(json_rows, bad):
    nested = pa.struct([("x", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    schema = [("i", pa.int32()), ("f", pa.float64()), ("s", pa.string()), ("b", pa.bool_()), ("d", pa.date32())]
    schema += [
        ("at", pa.timestamp("us", "UTC")),
        ("n", nested),
        ("l", pa.list_(pa.timestamp("us"))),
        ("m", pa.decimal128(6, 2)),
    ]
    value = {
        "i": 1,
        "f": 1.5,
        "s": "é",
        "b": True,
        "d": "2020-01-02",
        "at": "2020-01-02T03:04:05.5Z",
        "m": 1.25,
        "unknown": [1],
    }
    value |= {"n": {"x": 1, "at": "2020-01-02T00:00:00Z"}, "l": ["2020-01-02 00:00:00", None]}
    lines = json.dumps(value) + "\n" + '{"i":null,"n":null}\n{}\n'
    at = datetime(2020, 1, 2)
    full = (1, 1.5, "é", True, date(2020, 1, 2), datetime(2020, 1, 2, 3, 4, 5, 500000, UTC))
    full += ({"x": 1, "at": at.replace(tzinfo=UTC)}, [at, None], Decimal("1.25"))
    rows = json_rows(lines + bad, schema, mode="DROPMALFORMED")
    assert rows == [full, (None,) * 9, (None,) * 9]


def test_maps_and_binary(json_rows):
    schema = [("m", pa.map_(pa.string(), pa.int64())), ("b", pa.binary())]
    assert json_rows('{"m":{"k":1},"b":"AQI="}\n', schema) == [([("k", 1)], b"\x01\x02")]


def test_what_spark_takes_for_a_string_or_a_timestamp(json_rows):
    schema = [("s", pa.string()), ("t", pa.timestamp("us", "UTC")), CORRUPT]
    data = '{"s":1,"t":1577836800}\n{"s":{"k":1}}\n{"s":true}\n'
    at = datetime(2020, 1, 1, tzinfo=UTC)
    assert json_rows(data, schema) == [("1", at, None), ('{"k":1}', None, None), ("true", None, None)]


@pytest.mark.parametrize("bad", ["", "nonsense\n"])
def test_numbers_as_text_and_decimals_that_are_too_large(json_rows, bad):
    schema = [("s", pa.string()), ("d", pa.decimal128(5, 2)), CORRUPT]
    rows = json_rows('{"s":1.50,"d":1.5}\n{"s":{"k":2.5},"d":12345}\n' + bad, schema, mode="PERMISSIVE")
    assert rows[0] == ("1.50", Decimal("1.50"), None)
    assert rows[1] == ('{"k":2.5}', None, '{"s":{"k":2.5},"d":12345}')


def test_two_objects_on_a_line_before_a_blank_one(json_rows):
    assert json_rows('{"a":1}{"a":2}\n  \n{"a":3}\n', [("a", pa.int64())]) == [(1,), (3,)]


BAD = b'{"a":1,"s":"x"}\n{"a":"q","s":"y"}\nbad\n"str"\n{"a":2.5}\n{"a":3,"s":"\xff"}\n'
BAD += b'[{"a":4},{"a":5}]\n{"a":6} rest\n{"a":7}{"a":8}\n'
SCHEMA = [("a", pa.int64()), ("s", pa.string()), CORRUPT]


def test_permissive_keeps_what_fits(json_rows, source_harness):
    assert json_rows(BAD, SCHEMA) == [
        (1, "x", None),
        (None, "y", '{"a":"q","s":"y"}'),
        (None, None, "bad"),
        (None, None, '"str"'),
        (None, None, '{"a":2.5}'),
        (3, "\ufffd", '{"a":3,"s":"\ufffd"}'),
        (4, None, None),
        (5, None, None),
        (6, None, None),
        (7, None, None),
    ]
    assert source_harness.metrics.snapshot()["bad_rows"] == 5


def test_drop_and_fail(json_rows):
    assert [row[0] for row in json_rows(BAD, SCHEMA, mode="DROPMALFORMED")] == [1, 4, 5, 6, 7]
    with pytest.raises(BadDataError, match=r'in\.json, byte 16: a bad row \(field a: "q" is not bigint\)'):
        json_rows(BAD, SCHEMA, mode="FAILFAST")


def test_offsets(json_rows):
    data = '{"a":1}\n\n{"a":2}\r\n{"a":3}'
    assert json_rows(data, [("a", pa.int64()), ("_file_offset", pa.int64())]) == [(1, 0), (2, 9), (3, 18)]


def test_documents_over_several_lines(json_rows):
    schema = [("a", pa.int64()), CORRUPT]
    assert json_rows('[{"a":1},\n {"a":2}]', schema, multiLine=True) == [(1, None), (2, None)]
    assert json_rows('{"a":\n1}', schema, multiLine=True) == [(1, None)]
    assert json_rows('{"a":\n', schema, multiLine=True) == [(None, '{"a":\n')]


def test_encodings(json_rows):
    data = '{"s":"é"}\n'
    for encoding in ("latin-1", "utf-16", "utf-32-be"):
        assert json_rows(data.encode(encoding), [("s", pa.string())], encoding=encoding) == [("é",)]


def test_the_schema_is_inferred(tmp_path, source_harness):
    (tmp_path / "a.json").write_text('{"b":1,"a":{"x":null,"t":"2020-01-01T00:00:00Z"}}\nbad\n{"b":1.5,"c":[1]}\n')
    schema = source_harness.source(tmp_path, format="json").infer_schema()
    assert schema.names == ["_corrupt_record", "a", "b", "c"]
    struct = pa.struct([("t", pa.string()), ("x", pa.string())])
    assert schema.types == [pa.string(), struct, pa.float64(), pa.list_(pa.int64())]
    dropped = source_harness.source(tmp_path, format="json", badRecords="drop").infer_schema()
    assert dropped.names == ["a", "b", "c"]
    with pytest.raises(BadDataError, match=r"a\.json, byte 50: a bad row \(not JSON\): 'bad'"):
        source_harness.source(tmp_path, format="json", badRecords="fail").infer_schema()
    (tmp_path / "a.json").write_text("bad\n")
    with pytest.raises(BadConfigurationError, match="no JSON object"):
        source_harness.source(tmp_path, format="json").infer_schema()


def test_numbers_as_texts_elements_that_do_not_fit_and_lists_with_a_bad_object(json_rows):
    schema = [("s", pa.string()), ("l", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64())), CORRUPT]
    line = '{"s":1e3,"l":[1,"x"],"m":{"k":"x"}}'
    assert json_rows(line + "\n", schema) == [("1e3", None, None, line)]
    several = '[{"s":"a"},{"l":["x"]}]'
    assert json_rows(several + "\n", schema) == [("a", None, None, several), (None, None, None, several)]
    assert json_rows('{"s":"2025"}\n{"s":"2025-12"}\n', [("s", pa.date32())]) == [
        (date(2025, 1, 1),),
        (date(2025, 12, 1),),
    ]


LOOSE = {
    "{'s':'x','a':1}": ("x", 1, None),
    """{"s":'it\\'s',"a":2}""": ("it's", 2, None),
    """{'s':'a"b','n':{'x':-INF}}""": ('a"b', None, float("-inf")),
    """{"s":"a\\'b","n":{"x":+INF}}""": ("a'b", None, float("inf")),
    """{'s':'\\u00e9\\\\','n':{'x':+Infinity}}""": ("é\\", None, float("inf")),
}


@pytest.mark.parametrize("options", [{}, {"multiLine": True}, {"rescuedDataColumn": "rest"}])
@pytest.mark.parametrize("line", LOOSE)
def test_single_quotes_are_read_as_spark_reads_them(tmp_path, source_harness, line, options):
    """With a schema and without, next to other rows and alone, and whatever is done with what does not fit."""
    (tmp_path / "a.json").write_text(line if options.get("multiLine") else f'{{"s":"y"}}\n{line}\n')
    source = source_harness.source(tmp_path, format="json", **options)
    inferred = source.infer_schema()
    assert "_corrupt_record" not in inferred.names
    assert inferred.field("s").type == pa.string()
    assert "n" not in inferred.names or inferred.field("n").type == pa.struct([("x", pa.float64())])
    fields = [("s", pa.string()), ("a", pa.int64()), ("n", pa.struct([("x", pa.float64())]))]
    fields += [(name, pa.string()) for name in options.values() if name == "rest"]
    *_, row = source_harness.read(source, pa.schema([*fields, CORRUPT])).to_pylist()
    assert (row["s"], row["a"], row["n"] and row["n"]["x"], row["_corrupt_record"]) == (*LOOSE[line], None)


@pytest.mark.parametrize("line", ["{'s':'x'", "{'s':'x}", "{'s:'x'}", "{s:'x'}", "'x'", "{'s':'a\tb'}", "{'s':'x\\"])
def test_what_is_no_json_for_spark_either_is_a_bad_row(json_rows, line):
    assert json_rows(line + "\n", [("s", pa.string()), CORRUPT]) == [(None, line)]


@pytest.mark.parametrize("bad", ["", "nonsense\n"])  # a row that does not fit sends its neighbours the slow way
@pytest.mark.parametrize(
    ("text", "value"),
    [("1,000.5", "1000.50"), ("-,1", "-1.00"), ("\u0663", "3.00"), ("1e2", "100.00"), ("+1", "1.00"), (".5", "0.50")]
    + [(text, None) for text in ("1_0", " 1", "1 ", "1_000.5", "NaN", "", ",", "0x10")],
)
def test_texts_for_a_decimal_are_read_as_spark_reads_them(json_rows, text, value, bad):
    line = f'{{"d":"{text}"}}'
    rows = json_rows(f"{line}\n{bad}", [("d", pa.decimal128(20, 2)), CORRUPT])
    assert rows[0] == ((None, line) if value is None else (Decimal(value), None))


def test_every_line_may_begin_with_a_byte_order_mark(json_rows):
    """As in files that were put together from several ones."""
    data = '\ufeff{"a":1}\n\ufeff{"a":2}\n{"a":3}\n'
    assert json_rows(data, [("a", pa.int64()), CORRUPT]) == [(1, None), (2, None), (3, None)]
