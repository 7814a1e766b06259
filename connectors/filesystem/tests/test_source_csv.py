"""CSV: cells, nulls, types, headers, and rows that do not fit in each mode."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, BadDataError
from penstock_filesystem.formats import _blocks
from penstock_filesystem.options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions, SourceOptions

UTC = timezone.utc
TWO = [("id", pa.int64()), ("s", pa.string())]
CORRUPT = ("_corrupt_record", pa.string())


@pytest.fixture
def csv_rows(tmp_path, source_harness):
    """Rows of a CSV file of the given contents."""

    def read(data, schema=TWO, **options):
        path = tmp_path / "in.csv"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return source_harness.rows(path, schema, format="csv", **options)

    return read


def test_cells_nulls_and_empty_cells_are_as_in_spark(csv_rows):
    data = '1,""\n2,\n3,"a,b"\n4,a"b\n5,NA\n6, sp \n'
    assert csv_rows(data) == [(1, None), (2, None), (3, "a,b"), (4, 'a"b'), (5, "NA"), (6, " sp ")]
    assert csv_rows('1,""\n2,\n3,NA\n4,"NA"\n', nullValue="NA") == [(1, ""), (2, None), (3, None), (4, None)]
    assert csv_rows('1,""\n2,\n', emptyValue="E") == [(1, "E"), (2, None)]


@pytest.mark.parametrize("bad", ["", "x,y\n"])  # a row that does not fit sends its neighbours the slow way
def test_both_ways_of_parsing_agree(csv_rows, bad):
    good = '1,"a""b"\n2,""\n3,\n4,"a\\"b"\n5,"a\\\\"\n6,"a\\nb"\n7,a\\\n8,q"\n'
    expected = [(1, 'a"b'), (2, None), (3, None), (4, 'a"b'), (5, "a\\"), (6, "a\\nb"), (7, "a\\"), (8, 'q"')]
    assert csv_rows(good + bad, mode="DROPMALFORMED") == expected
    data = "1,a,NA\n2,,\n3, b ,c\n" + ("z,1,2\n" if bad else "")
    schema = [*TWO, ("t", pa.string())]
    options = {"nullValue": "NA", "emptyValue": "E", "mode": "DROPMALFORMED"}
    options |= {"ignoreLeadingWhiteSpace": True, "ignoreTrailingWhiteSpace": True}
    assert csv_rows(data, schema, **options) == [(1, "a", None), (2, None, None), (3, "b", "c")]


def test_every_type(csv_rows):
    schema = [("a", pa.int8()), ("b", pa.float64()), ("c", pa.decimal128(6, 2)), ("d", pa.bool_()), ("e", pa.date32())]
    schema += [("f", pa.timestamp("us", "UTC")), ("g", pa.timestamp("us")), ("h", pa.binary()), ("i", pa.float32())]
    row = "1,1.5,1.25,TRUE,2020-01-02,2020-01-02 03:04:05.5,2020-01-02T03:04:05,ab,0.5\n"
    at = datetime(2020, 1, 2, 3, 4, 5)
    expected = (
        1,
        1.5,
        Decimal("1.25"),
        True,
        date(2020, 1, 2),
        at.replace(microsecond=500000, tzinfo=UTC),
        at,
        b"ab",
        0.5,
    )
    assert csv_rows(row, schema) == [expected]
    assert csv_rows(row + "300,,,,,,,,\n", schema, mode="DROPMALFORMED") == [expected]
    assert csv_rows(row.replace("1.25", "1.245"), schema) == [expected]  # rounded half up
    assert csv_rows(",,,,,,,,\n", schema) == [(None,) * 9]


def test_numbers_are_as_strict_as_sparks(csv_rows):
    schema = [("i", pa.int64()), ("f", pa.float64()), ("m", pa.decimal128(4, 1)), ("b", pa.bool_())]
    assert csv_rows(" 5, 5,5 , true\n", schema) == [(None, 5.0, None, None)]
    trimmed = csv_rows(" 5, 5,5 , true\n", schema, ignoreLeadingWhiteSpace=True, ignoreTrailingWhiteSpace=True)
    assert trimmed == [(5, 5.0, 5, True)]
    floats = csv_rows("Inf\n-Infinity\ninf\nnan\n1d\n1_0\n", [("f", pa.float64())])
    assert floats == [(float("inf"),), (float("-inf"),), (None,), (None,), (1.0,), (None,)]
    assert csv_rows("inf\n", [("f", pa.float64())]) == [(None,)]


def test_escapes_and_open_quotes_out_of_place(csv_rows):
    assert csv_rows('1,a\\"b\n2,"a\\"b"\n', TWO) == [(1, 'a\\"b'), (2, 'a"b')]
    assert csv_rows('1,"open\n', TWO) == [(1, "open")]
    assert csv_rows("1,a\n  \n2,b\n", TWO, multiLine=True) == [(1, "a"), (None, None), (2, "b")]


def test_timestamps_with_and_without_a_zone(csv_rows):
    schema = [("at", pa.timestamp("us", "UTC"))]
    zoned = csv_rows("2020-01-01T00:00:00+02:00\n2020-01-01T00:00:00Z\n", schema)
    assert zoned == [(datetime(2019, 12, 31, 22, tzinfo=UTC),), (datetime(2020, 1, 1, tzinfo=UTC),)]
    assert csv_rows("2020-01-01 01:00:00\n", schema, timeZone="Europe/Berlin") == [(datetime(2020, 1, 1, tzinfo=UTC),)]
    mixed = csv_rows("2020-01-01 00:00:00\n2020-01-01T00:00:00Z\n2020-01-01\n2020-01-01T00:00:00.1234567Z\n", schema)
    assert [at.microsecond for (at,) in mixed] == [0, 0, 0, 123456]
    naive = [("at", pa.timestamp("us")), CORRUPT]
    assert csv_rows("2020-01-01T00:00:00Z\n", naive) == [(None, "2020-01-01T00:00:00Z")]


def test_patterns_of_dates_and_timestamps(csv_rows):
    schema = [("d", pa.date32()), ("at", pa.timestamp("us", "UTC")), CORRUPT]
    data = "02.01.2020,2020/01/02 03-04\nx,2020/01/02 03-04\n"
    rows = csv_rows(data, schema, dateFormat="dd.MM.yyyy", timestampFormat="yyyy/MM/dd HH-mm")
    at = datetime(2020, 1, 2, 3, 4, tzinfo=UTC)
    assert rows == [(date(2020, 1, 2), at, None), (None, at, "x,2020/01/02 03-04")]
    fraction = csv_rows("02.01.2020 03:04:05.250 +0100\n", schema[1:2], timestampFormat="dd.MM.yyyy HH:mm:ss.SSS Z")
    assert fraction == [(datetime(2020, 1, 2, 2, 4, 5, 250000, tzinfo=UTC),)]
    with pytest.raises(BadConfigurationError, match=r"timestampFormat.*'GGG'"):
        csv_rows("x\n", schema, timestampFormat="GGG")


BAD = b'1,a\nx,b\n3\n4,d,e\n5,"open\n6,f\n7,\xff\n\n8,h\n'


def test_permissive_keeps_bad_rows_with_nulls_and_their_text(csv_rows, source_harness):
    rows = csv_rows(BAD, [*TWO, CORRUPT])
    assert rows == [
        (1, "a", None),
        (None, "b", "x,b"),
        (3, None, "3"),
        (4, "d", "4,d,e"),
        (5, "open", None),
        (6, "f", None),
        (7, "\ufffd", "7,\ufffd"),
        (8, "h", None),
    ]
    assert source_harness.metrics.snapshot()["bad_rows"] == 4
    assert csv_rows(BAD, TWO) == [row[:2] for row in rows]
    named = csv_rows(BAD, [("bad", pa.string()), *TWO], columnNameOfCorruptRecord="bad")
    assert named == [(row[2], *row[:2]) for row in rows]


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [("nanValue", "-9999", "nan"), ("positiveInf", "max", "inf"), ("negativeInf", "min", "-inf")],
)
def test_texts_of_numbers_that_are_not_finite(csv_rows, option, text, value):
    column = [("x", pa.float64())]
    assert str(csv_rows(f"{text}\n1.5\n", column, **{option: text})) == f"[({value},), (1.5,)]"
    assert csv_rows("Inf\n-Inf\nbad\n", column)[:2] == [(float("inf"),), (float("-inf"),)]


def test_drop_malformed_drops_them(csv_rows, source_harness):
    assert [row[0] for row in csv_rows(BAD, mode="DROPMALFORMED")] == [1, 5, 6, 8]
    assert source_harness.metrics.snapshot()["bad_rows"] == 4


def test_fail_fast_names_file_offset_and_text(csv_rows):
    with pytest.raises(BadDataError, match=r"in\.csv, byte 4: a bad row \(column id: 'x' is not bigint\): 'x,b'"):
        csv_rows(BAD, mode="FAILFAST")


def test_a_bad_row_in_a_large_block_costs_only_its_neighbourhood(csv_rows, source_harness):
    lines = [f"{i},note {i}" for i in range(60_000)]
    lines[31_234] = "x31234,y"
    rows = csv_rows("\n".join(lines) + "\n", [*TWO, ("_file_offset", pa.int64())])
    assert len(rows) == 60_000
    assert rows[31_234] == (None, "y", len("\n".join(lines[:31_234])) + 1)
    assert [row[0] for row in rows[31_235:31_238]] == [31_235, 31_236, 31_237]
    assert source_harness.metrics.snapshot()["bad_rows"] == 1


def test_an_open_quote_does_not_swallow_the_next_row(csv_rows):
    assert csv_rows('1,"a\n2,b"\n', [*TWO, CORRUPT]) == [(1, "a", None), (2, 'b"', None)]


def test_header_comments_and_blank_lines(csv_rows):
    data = "\n#c\nid,s\n\n1,a\n   \n#x\n2,b\n"
    assert csv_rows(data, header=True, comment="#") == [(1, "a"), (2, "b")]
    assert csv_rows("id,s\r\n1,a\r\n2,b\r\n", header=True) == [(1, "a"), (2, "b")]
    assert csv_rows("1,a\r2,b\r\n3,c", TWO) == [(1, "a"), (2, "b"), (3, "c")]
    assert csv_rows("v\n\n  \n1\n", [("v", pa.string())], header=True) == [("1",)]


def test_the_header_is_checked_on_request(csv_rows, caplog):
    assert csv_rows("s,id\n1,a\n", header=True) == [(1, "a")]
    (warning,) = caplog.messages
    assert "in.csv: the header names ['s', 'id'], the schema ['id', 's']: columns are taken by position; set" in warning
    caplog.clear()
    assert csv_rows("ID,S\n1,a\n", header=True, enforceSchema=False) == [(1, "a")]
    with pytest.raises(BadDataError, match=r"in\.csv: the header names \['s', 'id'\]"):
        csv_rows("s,id\n1,a\n", header=True, enforceSchema=False)
    assert not caplog.messages


def test_separators_quotes_and_line_ends(csv_rows):
    assert csv_rows("1|'a|b'\n", sep="|", quote="'") == [(1, "a|b")]
    assert csv_rows("1\ta\n", delimiter="\\t") == [(1, "a")]
    assert csv_rows('1,"a"\n', quote="") == [(1, '"a"')]
    assert csv_rows('1,"a\\"\n2,b\n', escape='"') == [(1, "a\\"), (2, "b")]
    assert csv_rows("1,a;2,b;", lineSep=";") == [(1, "a"), (2, "b")]
    assert csv_rows("1,a\nx;2,b;", lineSep=";") == [(1, "a\nx"), (2, "b")]
    with pytest.raises(BadConfigurationError, match="option 'sep'"):
        csv_rows("1,a\n", sep="ab")


def test_rows_over_several_lines(csv_rows):
    data = 'id,s\n1,"a\nb"\n2,c\n3,"d\r\n\n""e"""\n'
    expected = [(1, "a\nb"), (2, "c"), (3, 'd\r\n\n"e"')]
    assert csv_rows(data, header=True, multiLine=True) == expected
    assert csv_rows(data + "x,y\n", header=True, multiLine=True, mode="DROPMALFORMED") == expected
    offsets = csv_rows(data, [*TWO, ("_file_offset", pa.int64())], header=True, multiLine=True)
    assert [row[2] for row in offsets] == [5, 13, 17]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-8-sig", "cp1252"])
def test_encodings(csv_rows, encoding):
    data = "1,é\n2,ü\n".encode(encoding)
    option = {"utf-8-sig": "UTF-8"}.get(encoding, encoding)
    assert csv_rows(data, encoding=option) == [(1, "é"), (2, "ü")]
    assert csv_rows(data, charset=option, maxSplitBytes=3) == [(1, "é"), (2, "ü")]


def test_offsets_are_those_of_the_file(csv_rows):
    data = "\ufeffid,s\r\n1,é\r\n\r\n2,b\r\n"
    rows = csv_rows(data, [("id", pa.int64()), ("s", pa.string()), ("_file_offset", pa.int64())], header=True)
    raw = data.encode()
    assert [raw[row[2] :].split(b",")[0] for row in rows] == [b"1", b"2"]


def test_names_and_types_are_inferred(tmp_path, source_harness):
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.csv").write_text("id,at,x,b,s\n1,2020-01-01T00:00:00,1.5,true,a\n2,,2,false,\n")
    plain = source_harness.source(tmp_path, format="csv", header=True).infer_schema()
    assert plain.names == ["id", "at", "x", "b", "s"] and set(plain.types) == {pa.string()}
    assert source_harness.source(tmp_path, format="csv").infer_schema().names == ["_c0", "_c1", "_c2", "_c3", "_c4"]
    typed = source_harness.source(tmp_path, format="csv", header=True, inferSchema=True).infer_schema()
    assert typed.types == [pa.int64(), pa.timestamp("us", "UTC"), pa.float64(), pa.bool_(), pa.string()]


def test_nested_columns_are_refused(source_harness, tmp_path):
    source = source_harness.source(tmp_path, format="csv")
    with pytest.raises(BadConfigurationError, match="cannot hold the column l"):
        source.validate_schema(pa.schema([("l", pa.list_(pa.int64()))]))
    with pytest.raises(BadConfigurationError, match="_corrupt_record for bad rows must be a string"):
        source.validate_schema(pa.schema([("_corrupt_record", pa.int64())]))


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"lineSep": ","}, "lineSep"),
        ({"lineSep": "||", "sep": "|"}, "lineSep"),
        ({"lineSep": '"\n'}, "lineSep"),
        ({"comment": ","}, "comment"),
        ({"comment": "'", "quote": "'"}, "comment"),
    ],
)
def test_characters_that_would_mean_two_things_are_refused(given, option):
    sides = [(SOURCE_OPTIONS, SourceOptions), (SINK_OPTIONS, SinkOptions)]
    for declared, made in sides[: 1 if option == "comment" else 2]:
        values = declared.parse({"path": "a", "format": "csv", **given}, owner="t")
        with pytest.raises(BadConfigurationError, match=f"option '{option}': "):
            made.from_values(values)


def test_lines_of_other_formats_may_end_with_a_comma():
    values = SOURCE_OPTIONS.parse({"path": "a", "format": "text", "lineSep": ","}, owner="t")
    assert SourceOptions.from_values(values).format.line_sep == ","


@pytest.mark.parametrize("bad", ["", "x,y\n"])  # a row that does not fit sends its neighbours the slow way
@pytest.mark.parametrize("options", [{}, {"multiLine": True}, {"escape": '"'}])
def test_blanks_behind_a_closing_quote_are_not_of_the_cell(csv_rows, bad, options):
    data = '1,"a" \n2,"b"\t\n3," c "\n4,d \n5," "\n'
    expected = [(1, "a"), (2, "b"), (3, " c "), (4, "d "), (5, " ")]
    assert csv_rows(data + bad, mode="DROPMALFORMED", **options) == expected
    assert csv_rows(data.replace(",", "\t") + bad, sep="\t", **options)[0] == (1, "a")
    assert csv_rows('"1" ,"a" ,"b"\n', [*TWO, ("t", pa.string())], **options) == [(1, "a", "b")]


def test_hexadecimal_numbers_with_an_exponent_are_javas(tmp_path, csv_rows, source_harness):
    schema = [("f", pa.float64()), ("g", pa.float32())]
    data = "0x1p3,-0X.8P1d\n0x1p99999,-0x1.p+99999\n0x10,1\n"
    assert csv_rows(data, schema, mode="DROPMALFORMED") == [(8.0, -1.0), (float("inf"), float("-inf"))]
    (tmp_path / "in.csv").write_text("0x1p3\n1.5\n")
    assert source_harness.source(tmp_path, format="csv", inferSchema=True).infer_schema().types == [pa.float64()]


def test_blanks_before_a_quote_are_skipped_if_leading_ones_are(csv_rows):
    data = '1, "a, b"\n2, ""\n3,\t"c" \n4, d \n'
    rows = csv_rows(data, ignoreLeadingWhiteSpace=True)
    assert rows == [(1, "a, b"), (2, None), (3, "c"), (4, "d ")]
    assert csv_rows('1, "a\nb"\n2,c\n', ignoreLeadingWhiteSpace=True, multiLine=True) == [(1, "a\nb"), (2, "c")]


@pytest.mark.parametrize("bad", ["", "x,y\n"])  # a row that does not fit sends its neighbours the slow way
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_which_quotes_and_blank_lines_count_in_rows_of_several_lines(csv_rows, bad, end):
    options = {"multiLine": True, "mode": "DROPMALFORMED"}
    data = f'1,5" pipe{end}{end}2,"a;b"{end}3,it"s{end}{bad.strip()}{end if bad else ""}4,c'
    assert csv_rows(data, **options) == [(1, '5" pipe'), (2, "a;b"), (3, 'it"s'), (4, "c")]
    assert csv_rows(f'#it"s{end}1,a{end}#"{end}2,b{end}{bad}', comment="#", **options) == [(1, "a"), (2, "b")]


def test_blocks_of_several_lines_are_cut_where_a_row_ends(tmp_path, source_harness, monkeypatch):
    monkeypatch.setattr(_blocks.quoted_row_blocks, "__defaults__", (7,))
    rows = [(number, 'x"y' if number % 3 else f"a\n{number},b") for number in range(200)]
    cells = [f"{number},{text}" if number % 3 else f'{number},"{text}"' for number, text in rows]
    (tmp_path / "in.csv").write_text("\n".join(cells))
    assert source_harness.rows(tmp_path, TWO, format="csv", multiLine=True) == rows


@pytest.mark.parametrize("bad", ["", "x,y\n"])  # a row that does not fit sends its neighbours the slow way
def test_a_byte_order_mark_counts_at_the_beginning_of_a_file_only(csv_rows, bad):
    data = "\ufeffs,id\n\ufeffx,1\n" + bad
    schema = [("s", pa.string()), ("id", pa.int64())]
    assert csv_rows(data, schema, header=True, mode="DROPMALFORMED")[0] == ("\ufeffx", 1)


@pytest.mark.parametrize("bad", ["", "x,y\n"])  # a row that does not fit sends its neighbours the slow way
def test_commas_in_a_decimal_mean_nothing(csv_rows, bad):
    schema = [("d", pa.decimal128(20, 2)), ("s", pa.string())]
    rows = csv_rows('"1,000.5",a\n"-,1",b\n"\u0663",c\n' + bad, schema, mode="DROPMALFORMED")
    assert rows == [(Decimal("1000.50"), "a"), (Decimal("-1.00"), "b"), (Decimal("3.00"), "c")]
