"""What does not fit the schema is kept as JSON: nothing that a file holds is lost, and what fits is as without it."""

from __future__ import annotations

import json
import math
import uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, BadDataError
from penstock_filesystem.formats import SplitState
from penstock_filesystem.formats._fit import fit_column
from penstock_filesystem.formats.avro._reader import AvroRecords
from penstock_filesystem.formats.json._reader import JsonLinesDecoder

SOME = settings(max_examples=60, derandomize=True)
RESCUE = {"rescuedDataColumn": "rest"}


@pytest.fixture
def read(source_harness, tmp_path):
    """``read(files, fields, **options)``: a table of files (names and bytes) in a new directory."""

    def read(files, fields, rescues=True, **options):
        root = tmp_path / uuid.uuid4().hex
        for name, data in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        more = RESCUE if rescues else {}
        schema = pa.schema([*fields, *([("rest", pa.string())] if rescues else [])])
        return source_harness.read(source_harness.source(root, **options, **more), schema)

    return read


def rests(table):
    return [None if text is None else json.loads(text) for text in table["rest"].to_pylist()]


def parquet(**columns):
    out = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), out)
    return out.getvalue().to_pybytes()


def avro(fields, *records):
    import io

    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema({"type": "record", "name": "r", "fields": fields}), list(records))
    return out.getvalue()


# JSON

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-9, 9),
    st.sampled_from([0.5, -1e30, 2.0]),
    st.sampled_from(["", "x", "é", "12", "\ud800", "😀", 'q"\\', "2025-12-31"]),
)
NAMES = st.sampled_from(["a", "b", "c", "A", "é"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)
TYPES = st.recursive(
    st.sampled_from([pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.bool_(), pa.decimal128(6, 2)]),
    lambda inner: st.one_of(
        st.builds(pa.list_, inner),
        st.builds(lambda item: pa.map_(pa.string(), item), inner),
        st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(lambda fields: pa.struct(list(fields.items()))),
    ),
    max_leaves=4,
)
SCHEMAS = st.dictionaries(NAMES, TYPES, min_size=1, max_size=4).map(lambda fields: pa.schema(list(fields.items())))


def same(value, written):
    """Whether a value that was read says what was written, as far as it was written."""
    if isinstance(value, str) and not isinstance(written, str):
        return json.loads(value) == written
    if isinstance(written, dict):
        found = dict(value) if isinstance(value, list) else value
        return all(one is None or same(found[name], one) for name, one in written.items())
    if isinstance(written, list):
        return len(value) == len(written) and all(map(same, value, written))
    if isinstance(value, Decimal):
        return value == round(Decimal(str(written)), 2)
    if isinstance(value, float):
        return math.isclose(value, written, rel_tol=1e-12)
    return value == written and isinstance(value, bool) == isinstance(written, bool)


def check_nothing_is_lost(value, left, written):
    """Every field of ``written`` is in ``value``, or in ``left``: there as it was, or, of an object, in part."""
    left = left or {}
    assert not set(left) - set(written)
    for name, one in written.items():
        if name not in left:
            assert one is None or same(value[name], one), (name, value, left)
        elif isinstance(one, dict) and left[name] != one:
            check_nothing_is_lost(value[name], left[name], one)
        else:
            assert left[name] == one
            # It is there in part at most: of a list or a map of which each part fits, or its elements have more.
            if not isinstance(one, dict | list):
                assert value.get(name) is None


@SOME
@given(st.lists(OBJECTS, min_size=1, max_size=4), SCHEMAS)
def test_of_json_nothing_is_lost(read, objects, schema):
    lines = [json.dumps(one).encode() for one in objects]
    table = read({"a.json": b"\n".join(lines)}, schema, format="json", badRecords="fail")
    values = table.to_pylist()
    for value, left, one in zip(values, rests(table), objects, strict=True):
        check_nothing_is_lost(value, left, one)
    # What fits is what is read without the column, and a row does not depend on those next to it.
    plain = read({"a.json": b"\n".join(lines)}, schema, False, format="json")
    assert plain.equals(table.drop_columns("rest"))
    for line, value in zip(lines, values, strict=True):
        assert read({"a.json": line}, schema, format="json").to_pylist() == [value]


def test_values_of_json_stay_as_they_were_written(read):
    line = (
        b'{"id": 1, "n": 1.50, "big": 123456789012345678901234567890.10, "t": "\\ud800 \\u00e9", "e": 1e2, "m": -0}\n'
    )
    table = read({"a.json": line}, [("id", pa.int64())], format="json")
    expected = '{"n":1.50,"big":123456789012345678901234567890.10,"t":"\\ud800 é","e":1e2,"m":-0}'
    assert table["rest"].to_pylist() == [expected]


def test_rows_of_json_that_are_no_objects_are_bad_still(read):
    data = b'{"id": 1}\n{"id": "x", "n": []}\nbroken\n[1]\n{"id": 2, "l": ' + b"[" * 3000 + b"]" * 3000 + b"}\n"
    fields = [("id", pa.int64()), ("_corrupt_record", pa.string())]
    table = read({"a.json": data}, fields, format="json")
    assert table["id"].to_pylist() == [1, None, None, None, None]
    assert rests(table) == [None, {"id": "x", "n": []}, None, None, None]
    assert [text is not None for text in table["_corrupt_record"].to_pylist()] == [False, False, True, True, True]
    with pytest.raises(BadDataError, match="not JSON"):
        read({"a.json": data}, [("id", pa.int64())], format="json", badRecords="fail")


def test_rows_of_json_in_which_everything_fits_are_parsed_as_blocks(read, monkeypatch):
    data = b'{"id": 1}\n' * 100
    monkeypatch.setattr(JsonLinesDecoder, "convert", None)
    assert rests(read({"a.json": data}, [("id", pa.int64())], format="json")) == [None] * 100


def test_a_list_of_objects_in_json_is_a_row_each(read):
    data = b'[{"id": 1, "x": 1},\n {"id": "y"}]'
    table = read({"a.json": data}, [("id", pa.int64())], format="json", multiLine="true")
    assert (table["id"].to_pylist(), rests(table)) == ([1, None], [{"x": 1}, {"id": "y"}])


# CSV

CELLS = st.sampled_from(["1", "-7", "x", "", "1.5", "é", "2025-12-31", "true", 'a"b', "a,b", "99999999999999999999"])


def quoted(cell):
    return '"' + cell.replace('"', '""') + '"' if cell and ("," in cell or '"' in cell) else cell


@SOME
@given(st.lists(st.lists(CELLS, min_size=1, max_size=5), min_size=1, max_size=4))
def test_of_csv_nothing_is_lost(read, rows):
    fields = [("a", pa.int64()), ("b", pa.string()), ("c", pa.date32())]
    rows = [row for row in rows if any(row)] or [["1"]]
    data = "".join(",".join(map(quoted, row)) + "\n" for row in rows).encode()
    table = read({"a.csv": data}, fields, format="csv")
    for value, left, row in zip(table.to_pylist(), rests(table), rows, strict=True):
        if len(row) < len(fields):
            assert left is None  # a bad row
            continue
        left = left or {}
        assert [left.get(f"_c{number}") for number in range(3, 7)] == [*row[3:], *[None] * (7 - len(row))]
        for (name, _), cell in zip(fields, row[:3], strict=True):
            assert left.get(name, str(value[name] if value[name] is not None else "")) == cell
            assert name not in left or value[name] is None
    plain = read({"a.csv": data}, fields, False, format="csv")
    assert plain.equals(table.drop_columns("rest"))


def test_a_csv_row_with_too_few_cells_is_bad_still(read):
    fields = [("a", pa.int64()), ("b", pa.string())]
    with pytest.raises(BadDataError, match="1 cells instead of 2"):
        read({"a.csv": b"1,x,more\nx,y\n3\n"}, fields, format="csv", badRecords="fail")


def test_names_of_more_cells_are_no_columns(read):
    table = read({"a.csv": b"x,y\n"}, [("_c1", pa.int64())], format="csv")
    assert rests(table) == [{"_c1": "x", "_c1_more": "y"}]


# Files that hold their schema


def test_columns_and_values_of_parquet_that_do_not_fit(read):
    data = parquet(
        id=pa.array([1, None, 3], pa.int32()),
        s=["1", "x", None],
        more=pa.array([Decimal("1.50"), None, None]),
        n=[{"x": 1, "y": "q"}, {"x": 2, "y": None}, None],
        l=[[{"x": 1, "z": 2}], None, []],
        k=[["1", "2"], ["1", "q"], None],
    )
    struct = pa.struct([("x", pa.int64())])
    fields = [("id", pa.int64()), ("s", pa.int64()), ("n", struct), ("l", pa.list_(struct)), ("k", pa.list_(pa.int8()))]
    table = read({"a.parquet": data}, fields, format="parquet")
    assert table.drop_columns("rest").to_pylist() == [
        {"id": 1, "s": 1, "n": {"x": 1}, "l": [{"x": 1}], "k": [1, 2]},
        {"id": None, "s": None, "n": {"x": 2}, "l": None, "k": None},
        {"id": 3, "s": None, "n": None, "l": [], "k": None},
    ]
    assert rests(table) == [
        {"more": 1.5, "n": {"y": "q"}, "l": [{"x": 1, "z": 2}]},
        {"s": "x", "k": ["1", "q"]},
        {"l": []},
    ]
    with pytest.raises(BadDataError, match=r"'s' holds string, which can't be read as bigint"):
        read({"a.parquet": data}, fields, False, format="parquet")


COLUMNS = st.dictionaries(
    NAMES,
    st.sampled_from(
        [
            ["1", "x", None, "2"],
            [1, None, 300, -5],
            [1.5, 2.0, None, math.inf],
            [True, None, False, True],
            [None, b"x", b"\xff", b""],
            [{"a": 1, "b": "x"}, None, {"a": 300, "b": None}, {"a": None, "b": "1"}],
            [[1], [300, 2], None, []],
            [Decimal("1.25"), Decimal("123456.00"), None, Decimal(0)],
        ]
    ),
    min_size=1,
    max_size=4,
)


#: Of columns whose names differ in more than their case.
PLAIN_SCHEMAS = SCHEMAS.filter(lambda schema: len({name.lower() for name in schema.names}) == len(schema))


@SOME
@given(COLUMNS, PLAIN_SCHEMAS)
def test_a_value_of_parquet_fits_if_it_does_so_alone(read, columns, schema):
    made = {name: pa.array(values) for name, values in columns.items()}
    table = read({"a.parquet": parquet(**made)}, schema, format="parquet", missingColumns="null")
    left = [rest or {} for rest in rests(table)]
    found = {field.name: found_as(field.name, made) for field in schema}
    for name in set(made) - set(found.values()):
        assert [name in rest for rest in left] == [value is not None for value in columns[name]]
    for field in schema:
        name = found[field.name]
        if name is None:
            assert table[field.name].null_count == 4
            continue
        if pa.types.is_struct(made[name].type) and pa.types.is_struct(field.type):
            continue  # member by member
        for row, rest, value in zip(table[field.name].to_pylist(), left, columns[name], strict=True):
            fits, alone = fitted_alone(value, made[name].type, field)
            assert (name in rest, row) == (not fits, alone)


def fitted_alone(value, there, field):
    """Whether a value fits as a column of its own, and what is read then."""
    try:
        column = fit_column(pa.array([value], there), field.type, field.name, None)
    except pa.ArrowException:
        return value is None, None
    return True, column[0].as_py()


def found_as(name, names):
    if name in names:
        return name
    return next((one for one in names if one.lower() == name.lower()), None)


UNCOMMON = {
    "time": (pa.array([time(1, 2, 3), None]), "01:02:03"),
    "span": (pa.array([timedelta(seconds=61), None], pa.duration("us")), "0:01:01"),
    "stamp": (pa.array([datetime(2025, 1, 1, tzinfo=timezone.utc), None], pa.timestamp("us", "UTC")), None),
    "day": (pa.array([date(2025, 1, 2), None]), "2025-01-02"),
    "bytes": (pa.array([b"\xff", None]), "/w=="),
    "four": (pa.array([b"\xff\xff\xff\xff", None], pa.binary(4)), "/////w=="),
    "numbers": (pa.array([[(1, "x")], None], pa.map_(pa.int64(), pa.string())), '[[1, "x"]]'),
    "large": (pa.array([["x"], None], pa.large_list(pa.large_string())), ["x"]),
    "pair": (pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)), "[1, 2]"),
    "half": (pa.array([1.5, None], pa.float32()).cast(pa.float16()), 1.5),
    "word": (pa.array(["x", None]).dictionary_encode(), "x"),
    "nan": (pa.array([math.nan, None]), "NaN"),
    "digits": (pa.array([Decimal("1.10"), None]), 1.10),
    "nothing": (pa.nulls(2), None),
    "empty": (pa.array(["", None]), ""),
    "deep": (pa.array([{"t": time(1), "n": {"x": None}}, None]), None),
    "no bytes": (pa.array([{"x": {"y": None}}, None]), None),
}


def test_a_struct_without_fields_takes_none(read):
    data = parquet(n=pa.array([{"x": 1}, None, {"x": None}]))
    table = read({"a.parquet": data}, [("n", pa.struct([]))], format="parquet")
    assert table["n"].to_pylist() == [{}, None, {}] and rests(table) == [{"n": {"x": 1}}, None, None]


def test_every_type_of_parquet_has_a_form(read):
    columns = {"id": pa.array([1, 2]), **{name: array for name, (array, _) in UNCOMMON.items()}}
    table = read({"a.parquet": parquet(**columns)}, [("id", pa.int64())], format="parquet")
    first, second = rests(table)
    assert second == {"pair": "[3, 4]"}
    assert set(first) == set(UNCOMMON) - {"nothing"}
    for name, (_, expected) in UNCOMMON.items():
        assert expected is None or first[name] == expected, name


def test_columns_and_values_of_avro_that_do_not_fit(read):
    fields = [
        {"name": "id", "type": ["null", "int"]},
        {"name": "s", "type": "string"},
        {"name": "either", "type": ["int", "string"]},
        {"name": "n", "type": {"type": "record", "name": "q", "fields": [{"name": "b", "type": "bytes"}]}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ]
    when = datetime(2025, 1, 1, tzinfo=timezone.utc)
    records = [
        {"id": 1, "s": "12", "either": 5, "n": {"b": b"\xff"}, "t": when},
        {"id": None, "s": "x", "either": "six", "n": {"b": b""}, "t": when},
    ]
    table = read({"a.avro": avro(fields, *records)}, [("id", pa.int64()), ("s", pa.int64())], format="avro")
    assert (table["id"].to_pylist(), table["s"].to_pylist()) == ([1, None], [12, None])
    assert rests(table) == [
        {"either": "5", "n": {"b": "/w=="}, "t": "2025-01-01T00:00:00.000000Z"},
        {"s": "x", "either": "six", "n": {"b": ""}, "t": "2025-01-01T00:00:00.000000Z"},
    ]


def test_values_that_an_avro_type_does_not_have_name_the_file(source_harness):
    source = source_harness.source("/in", format="avro", **RESCUE)
    schema = pa.schema([("d", pa.decimal128(4, 0)), ("rest", pa.string())])
    decoder = source._format_reader.decoder(schema, source_harness.metrics, offsets=False, elsewhere=())
    small = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}
    writer = {"type": "record", "name": "r", "fields": [{"name": "d", "type": small}]}
    records = AvroRecords([{"d": Decimal(123)}], 0, writer)
    with pytest.raises(BadDataError, match=r"/in/a\.avro: field d holds values that its Avro type does not"):
        list(decoder.decode(records, SplitState("/in/a.avro", "/in/a.avro", 1, 0, False)))


@pytest.mark.parametrize("format_", ["parquet", "avro"])
def test_what_fits_is_as_without_it(read, format_):
    rows = [{"id": number, "s": f"x{number}", "n": {"x": number}} for number in range(20_000)]
    if format_ == "parquet":
        data = parquet(**{name: pa.array([row[name] for row in rows]) for name in rows[0]})
    else:
        inner = {"type": "record", "name": "q", "fields": [{"name": "x", "type": "long"}]}
        types = {"id": "long", "s": "string", "n": inner}
        data = avro([{"name": name, "type": type_} for name, type_ in types.items()], *rows)
    fields = [("n", pa.struct([("x", pa.int64())])), ("_file_offset", pa.int64()), ("id", pa.int64())]
    table = read({"a": data}, fields, format=format_)
    assert table.drop_columns("rest").equals(read({"a": data}, fields, False, format=format_))
    assert rests(table) == [{"s": row["s"]} for row in rows]


# The column


def test_directories_hold_what_they_hold(read):
    files = {"day=1/a.json": b'{"id": 1, "day": 7, "Rest": 1, "rest": 2, "_file_name": 3}\n'}
    fields = [("id", pa.int64()), ("day", pa.int32()), ("_file_name", pa.string())]
    table = read(files, fields, format="json")
    assert table.to_pylist() == [{"id": 1, "day": 1, "_file_name": "a.json", "rest": '{"Rest":1,"rest":2}'}]
    table = read({"day=1/a": parquet(id=[1], day=[7], rest=["r"])}, fields, format="parquet")
    assert table.to_pylist() == [{"id": 1, "day": 1, "_file_name": "a", "rest": '{"rest":"r"}'}]


def test_an_inferred_schema_has_the_column_last(source_harness, tmp_path):
    (tmp_path / "1.parquet").write_bytes(parquet(id=[1], rest=["r"]))
    source = source_harness.source(tmp_path, format="parquet", includeMetadata="true", **RESCUE)
    schema = source.infer_schema()
    assert schema.names[:2] == ["id", "rest"] and len(schema) == 7
    assert source_harness.read(source, schema)["rest"].to_pylist() == ['{"rest":"r"}']


def test_how_many_rows_it_has_is_counted(source_harness, read):
    read({"a.json": b'{"id": 1}\n{"x": 1}\n{"x": 2}\n'}, [("id", pa.int64())], format="json")
    read({"a.parquet": parquet(id=[1, 2, 3], x=[None, "y", "z"])}, [("id", pa.int64())], format="parquet")
    assert source_harness.metrics.snapshot()["rescued_rows"] == 4


@pytest.mark.parametrize(
    ("fields", "options", "message"),
    [
        ([("id", pa.int64())], {"format": "json"}, "add 'rest string' to .schema"),
        ([("id", pa.int64()), ("rest", pa.int64())], {"format": "parquet"}, "add 'rest string' to .schema"),
        (
            [("id", pa.int64()), ("rest", pa.string())],
            {"format": "csv", "badRecordColumn": "rest"},
            "rest holds something else",
        ),
    ],
)
def test_a_schema_without_room_for_it_is_refused(source_harness, tmp_path, fields, options, message):
    source = source_harness.source(tmp_path, **options, **RESCUE)
    with pytest.raises(BadConfigurationError, match=message):
        source.validate_schema(pa.schema(fields))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "text", "rescuedDataColumn": "r"}, "rescuedDataColumn"),
        ({"format": "json", "rescuedDataColumn": " "}, "the name of a column"),
    ],
)
def test_options_that_do_not_go_with_it_are_refused(source_harness, tmp_path, options, message):
    with pytest.raises(BadConfigurationError, match=message):
        source_harness.source(tmp_path, **options)


@pytest.mark.parametrize("new_columns", ["fail", "ignore"])
@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_with_a_remembered_schema(source_harness, tmp_path, format_, new_columns):
    where = tmp_path / "in"
    where.mkdir()

    def put(number, **values):
        data = json.dumps(values).encode() if format_ == "json" else parquet(**{k: [v] for k, v in values.items()})
        (where / str(number)).write_bytes(data)

    def rows():
        options = {"format": format_, "schemaLocation": str(tmp_path / "schema"), "newColumns": new_columns, **RESCUE}
        source = source_harness.source(where, **options)
        schema = source.infer_schema()
        source.validate_schema(schema)
        wanted = ["id", *(["late"] if "late" in schema.names else []), "rest"]
        return [tuple(row.values()) for row in source_harness.read(source, schema).select(wanted).to_pylist()]

    put(1, id=1)
    assert rows() == [(1, None)]
    put(2, id=[1])  # no schema could take both: rescued
    assert sorted(rows(), key=str) == [(1, None), (None, '{"id":[1]}')]
    put(3, id=3, late="x")
    if new_columns == "ignore":
        assert (3, '{"late":"x"}') in rows()
        return
    with pytest.raises(BadDataError, match="late"):
        rows()
    assert (3, "x", None) in rows()


@pytest.mark.spark
@pytest.mark.budget(60)
def test_on_spark(spark, tmp_path):
    where = tmp_path / "in"
    where.mkdir()
    (where / "1.json").write_text('{"id": 1}\n{"id": "x", "more": {"y": [1]}}\n')
    options = {"format": "json", "rescuedDataColumn": "rest"}
    frame = spark.read.format("penstock.filesystem").options(**options).schema("id long, rest string").load(str(where))
    expected = [(None, '{"id":"x","more":{"y":[1]}}'), (1, None)]
    assert sorted(map(tuple, frame.collect()), key=str) == sorted(expected, key=str)
    options["schemaLocation"] = str(tmp_path / "schema")
    (where / "1.json").write_text('{"id": 1}\n')
    for rows in (1, 2):
        stream = spark.readStream.format("penstock.filesystem").options(**options).load(str(where))
        writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
        assert spark.read.schema(stream.schema).parquet(str(tmp_path / "out")).count() == rows
        (where / "2.json").write_text('{"id": "x"}\n')
    found = spark.read.schema("id long, rest string").parquet(str(tmp_path / "out")).collect()
    assert sorted(map(tuple, found), key=str) == [(1, None), (None, '{"id":"x"}')]
