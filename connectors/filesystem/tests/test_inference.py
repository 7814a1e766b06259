"""Schemas of reads without one: of every row and of every file, as Spark infers them."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from pyarrow import orc

from penstock.errors import BadConfigurationError, BadDataError
from penstock_filesystem.formats import merge_schemas
from penstock_filesystem.formats.json._inference import JsonInference

SOME = settings(max_examples=25, suppress_health_check=list(HealthCheck))

NUMBERS = ["1", "-7", "1.5", "1e3", "9223372036854775807", "9223372036854775808", "123456789012345678901234567890"]
NUMBERS += ["1" * 38, "1" * 39, "-" + "9" * 20, "-0", "1234567890123456789"]
SCALARS = [*NUMBERS, "true", "null", '""', '"x"', '"2020-01-01"', '"2020-01-01T00:00:00Z"', '"12345678901234567890"']


def as_object(fields):
    return "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}"


VALUES = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        st.dictionaries(st.sampled_from("xyZ"), inner, max_size=3).map(as_object),
    ),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3).map(as_object)
ODD_LINES = ["", " ", "bad", "12", "[]", "null", '[{"a":1},{"b":"x"}]', '{"a":', '{"a":1} x', "[1]", "{}"]
ODD_LINES += ['[{"a":1},2]']
LINES = st.one_of(OBJECTS, OBJECTS, OBJECTS, st.sampled_from(ODD_LINES))
FILES = st.lists(st.lists(LINES, max_size=4), min_size=1, max_size=3)


def put(where, files, ending):
    root = Path(where) / uuid.uuid4().hex
    root.mkdir()
    for number, lines in enumerate(files):
        (root / f"{number}.{ending}").write_text("".join(f"{line}\n" for line in lines))
    return root


def inferred(harness, root, **options):
    """The schema as text, or None if there is none to infer."""
    try:
        return harness.source(root, **options).infer_schema()
    except BadConfigurationError as error:
        note(str(error))
        return None


@pytest.mark.spark
@pytest.mark.budget(90)
def test_json_schemas_are_those_of_spark(spark, source_harness, tmp_path):
    from pyspark.sql.pandas.types import from_arrow_schema

    @SOME
    @given(FILES, st.sampled_from([{}, {"mode": "DROPMALFORMED"}]))
    def holds(files, options):
        root = put(tmp_path, files, "json")
        theirs = spark.read.options(**options).json(str(root)).schema
        ours = inferred(source_harness, root, format="json", **options)
        if set(theirs.names) <= {"_corrupt_record"}:
            assert ours is None
        elif len({name.lower() for name in theirs.names}) == len(theirs):
            assert from_arrow_schema(ours) == theirs

    holds()


@settings(SOME, max_examples=60)
@given(files=FILES)
def test_json_schemas_do_not_depend_on_the_way(tmp_path_factory, source_harness, files):
    """The same for rows that Arrow looks at together, and for each by itself, in whatever order."""
    where = tmp_path_factory.mktemp("json")
    lines = [line for file in files for line in file]
    together = inferred(source_harness, put(where, [lines], "json"), format="json")
    apart = inferred(source_harness, put(where, [[line] for line in reversed(lines)], "json"), format="json")
    assert together == apart
    # A single bad row makes Arrow refuse the block.
    by_row = inferred(source_harness, put(where, [[*lines, "bad"]], "json"), format="json", badRecords="drop")
    dropped = inferred(source_harness, put(where, files, "json"), format="json", badRecords="drop")
    assert by_row == dropped


@pytest.mark.spark
@pytest.mark.budget(60)
def test_csv_types_are_those_of_all_rows_as_in_spark(spark, source_harness, tmp_path):
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import IntegerType, LongType

    cells = ["1", "-7", "1.5", "1e3", "NaN", "99999999999", "9" * 20, "9" * 39, "true", "FALSE", "2020-01-01"]
    cells += ["2020-01-02 10:00:00", "x", "", '""', '"1"', "NA"]
    row = st.tuples(st.sampled_from(cells), st.sampled_from(cells)).map(",".join)

    @SOME
    @given(st.lists(st.lists(row, max_size=4), min_size=1, max_size=3), st.booleans())
    def holds(files, header):
        root = put(tmp_path, [["a,b", *rows] if header else rows for rows in files], "csv")
        for number in range(len(files)):
            os.utime(root / f"{number}.csv", (number, number))
        options = {"inferSchema": "true", "header": str(header).lower()}
        theirs = spark.read.options(**options).csv(str(root)).schema
        ours = inferred(source_harness, root, format="csv", **options)
        if ours is None:
            assert not theirs.fields
            return
        wide = [LongType() if one.dataType == IntegerType() else one.dataType for one in theirs]
        assert [one.dataType for one in from_arrow_schema(ours)] == wide

    holds()


def test_a_later_file_counts_and_so_does_a_row_far_behind(tmp_path, source_harness):
    many = "".join(f'{{"a":{number},"s":"{"x" * 90}"}}\n' for number in range(60_000))  # more than a block
    (tmp_path / "1.json").write_text(many + '{"a":1.5,"late":[true]}\n')
    (tmp_path / "2.json").write_text('{"other":{"x":1}}\n')
    schema = source_harness.source(tmp_path, format="json").infer_schema()
    assert {field.name: str(field.type) for field in schema} == {
        "a": "double",
        "late": "list<item: bool>",
        "other": "struct<x: int64>",
        "s": "string",
    }
    (tmp_path / "1.csv").write_text("a,b\n" + "1,2020-01-01\n" * 400_000 + "x,1\n")
    csv = {"format": "csv", "header": True, "inferSchema": True, "pathGlobFilter": "*.csv"}
    assert source_harness.source(tmp_path, **csv).infer_schema().types == [pa.string(), pa.string()]
    # The header of a file that is looked at from its middle is no row, and neither is its first row a header.
    some = source_harness.source(tmp_path, **csv, samplingRatio=0.3).infer_schema()
    assert some == pa.schema([("a", pa.int64()), ("b", pa.date32())])


def test_the_share_of_rows_that_is_looked_at(tmp_path, source_harness):
    for number in range(10):
        (tmp_path / f"{number}.json").write_text(json.dumps({f"f{number}": 1}) + "\n")
        os.utime(tmp_path / f"{number}.json", (number, number))
    for ratio, names in ((1, 10), (0.5, 5), (0.1, 1), (0.001, 1)):
        schema = source_harness.source(tmp_path, format="json", samplingRatio=ratio).infer_schema()
        assert len(schema) == names and "f0" in schema.names
    for ratio in ("0", "1.1", "-1", "x"):
        with pytest.raises(BadConfigurationError, match="samplingRatio"):
            source_harness.source(tmp_path, format="json", samplingRatio=ratio)


def parquet_files(where, *tables):
    for number, table in enumerate(tables):
        pq.write_table(table, where / f"{number}.parquet")
        os.utime(where / f"{number}.parquet", (number, number))


def test_a_newer_file_with_more_columns_is_named(tmp_path, source_harness, caplog):
    parquet_files(tmp_path, pa.table({"a": [1]}), pa.table({"A": [1.5], "b": ["x"]}))
    assert source_harness.source(tmp_path, format="parquet").infer_schema() == pa.schema([("a", pa.int64())])
    assert "1.parquet has columns that are not read" in caplog.text and "a double, b string; set merge" in caplog.text
    caplog.clear()
    merged = source_harness.source(tmp_path, format="parquet", mergeSchema=True).infer_schema()
    assert merged == pa.schema([("a", pa.float64()), ("b", pa.string())]) and not caplog.text


def test_files_that_do_not_go_together(tmp_path, source_harness, caplog):
    parquet_files(tmp_path, pa.table({"a": [1]}), pa.table({"a": ["x"]}))
    with pytest.raises(
        BadConfigurationError, match=r"1\.parquet: the column 'a' is string, and bigint in the files bef"
    ):
        source_harness.source(tmp_path, format="parquet", mergeSchema=True).infer_schema()
    source_harness.source(tmp_path, format="parquet").infer_schema()
    assert "the column 'a' is string, and bigint" in caplog.text


OLD = pa.schema(
    [
        ("id", pa.int32()),
        ("n", pa.struct([("x", pa.float32()), ("gone", pa.string())])),
        ("l", pa.list_(pa.struct([("a", pa.int32())]))),
        ("m", pa.map_(pa.string(), pa.struct([("q", pa.int32())]))),
    ]
)
NEW = pa.schema(
    [
        ("m", pa.map_(pa.string(), pa.struct([("r", pa.string()), ("q", pa.int64())]))),
        ("l", pa.list_(pa.struct([("B", pa.string()), ("a", pa.int64())]))),
        ("N", pa.struct([("y", pa.string()), ("X", pa.float64())])),
        ("id", pa.int64()),
        ("more", pa.date32()),
    ]
)
OLD_ROWS = [
    {"id": 1, "n": {"x": 1.5, "gone": "g"}, "l": [{"a": 1}, None, {"a": None}], "m": [("k", {"q": 1})]},
    {"id": None, "n": None, "l": None, "m": None},
    {"id": 3, "n": {"x": None, "gone": None}, "l": [], "m": []},
]
NEW_ROWS = [
    {"id": 1 << 40, "N": {"X": 2.5, "y": "y"}, "l": [{"B": "b", "a": 1 << 40}], "m": [("k", {"r": "r", "q": 2})]},
    {"id": 5, "N": None, "l": [None], "m": [("k", None)], "more": None},
]
BOTH_DDL = (
    "id long, n struct<y string, x double>, l array<struct<b string, a long>>, m map<string, struct<q long, r string>>"
)


@pytest.mark.spark
def test_files_that_changed_over_time_are_read_as_by_spark(spark, source_harness, tmp_path):
    """Columns and fields of structs were added, removed, reordered, renamed to another case, and widened."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    parquet_files(tmp_path, pa.Table.from_pylist(OLD_ROWS, OLD), pa.Table.from_pylist(NEW_ROWS, NEW))
    theirs = spark.read.schema(BOTH_DDL).parquet(str(tmp_path)).toArrow()
    schema = pa.schema(to_arrow_schema(StructType.fromDDL(BOTH_DDL), timezone="UTC"))
    source = source_harness.source(tmp_path, format="parquet", missingColumns="null")
    ours = source_harness.read(source, schema)
    assert sorted(map(str, ours.to_pylist())) == sorted(map(str, theirs.to_pylist()))
    with pytest.raises(BadDataError, match=r"the column 'n\.y' is neither in the file"):
        source_harness.read(source_harness.source(tmp_path, format="parquet"), schema)


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_the_columns_of_all_files_are_merged(source_harness, tmp_path, format_):
    import fastavro

    if format_ == "parquet":
        parquet_files(tmp_path, pa.Table.from_pylist(OLD_ROWS, OLD), pa.Table.from_pylist(NEW_ROWS, NEW))
    elif format_ == "orc":
        for number, table in enumerate((pa.Table.from_pylist(OLD_ROWS, OLD), pa.Table.from_pylist(NEW_ROWS, NEW))):
            orc.write_table(table, tmp_path / f"{number}.orc")
            os.utime(tmp_path / f"{number}.orc", (number, number))
    else:
        avro_files(tmp_path, fastavro)
    source = source_harness.source(tmp_path, format=format_, mergeSchema=True)
    merged = source.infer_schema()
    assert [field.name for field in merged] == ["id", "n", "l", "m", "more"]
    assert [field.name for field in merged.field("n").type] == ["x", "gone", "y"]
    assert [field.name for field in merged.field("l").type.value_type] == ["a", "B"]
    assert merged.field("id").type == pa.int64() and merged.field("n").type.field("x").type == pa.float64()
    rows = source_harness.read(source, merged).to_pylist()
    assert rows[0] == {
        "id": 1,
        "n": {"x": 1.5, "gone": "g", "y": None},
        "l": [{"a": 1, "B": None}, None, {"a": None, "B": None}],
        "m": [("k", {"q": 1, "r": None})],
        "more": None,
    }
    assert rows[3] == {
        "id": 1 << 40,
        "n": {"x": 2.5, "gone": None, "y": "y"},
        "l": [{"a": 1 << 40, "B": "b"}],
        "m": [("k", {"q": 2, "r": "r"})],
        "more": None,
    }


def avro_files(where, fastavro):
    def record(name, **fields):
        return {"type": "record", "name": name, "fields": [{"name": n, "type": ["null", t]} for n, t in fields.items()]}

    def array(items):
        return {"type": "array", "items": ["null", items]}

    def values(items):
        return {"type": "map", "values": ["null", items]}

    old = record(
        "Row",
        id="int",
        n=record("N", x="float", gone="string"),
        l=array(record("L", a="int")),
        m=values(record("M", q="int")),
    )
    new = record(
        "Row",
        m=values(record("M", r="string", q="long")),
        l=array(record("L", B="string", a="long")),
        N=record("N", y="string", X="double"),
        id="long",
        more={"type": "int", "logicalType": "date"},
    )
    for number, (schema, rows) in enumerate([(old, OLD_ROWS), (new, NEW_ROWS)]):
        plain = [{**row, "m": None if row["m"] is None else dict(row["m"])} for row in rows]
        with (where / f"{number}.avro").open("wb") as out:
            fastavro.writer(out, schema, plain)
        os.utime(where / f"{number}.avro", (number, number))


@pytest.mark.parametrize("levels", [90, 150, 400, 5_000, 20_000])
def test_rows_that_are_nested_deeply_end_nothing(tmp_path, source_harness, levels):
    deep = '{"a":' * levels + "1" + "}" * levels
    (tmp_path / "1.json").write_text('{"id":1}\n{"id":2,"d":' + deep + "}\n")
    schema = source_harness.source(tmp_path, format="json").infer_schema()
    assert schema.field("id").type == pa.int64() and ("d" in schema.names) == (levels == 90)


def test_many_keys_take_little_memory(tmp_path, source_harness):
    (tmp_path / "1.json").write_text("".join(f'{{"m":{{"key{number:06d}":1}}}}\n' for number in range(20_000)))
    before = pa.total_allocated_bytes()
    pool = pa.default_memory_pool()
    schema = source_harness.source(tmp_path, format="json").infer_schema()
    assert schema.field("m").type.num_fields == 20_000
    assert pa.total_allocated_bytes() - before < 1 << 20 and pool.max_memory() < 1 << 30


WIDER = [
    (pa.int8(), pa.int64(), pa.int64()),
    (pa.int32(), pa.float32(), pa.float64()),
    (pa.int64(), pa.decimal128(5, 2), pa.decimal128(21, 2)),
    (pa.int32(), pa.decimal128(20, 2), pa.decimal128(20, 2)),
    (pa.decimal128(5, 2), pa.decimal128(7, 4), pa.decimal128(7, 4)),
    (pa.decimal128(38, 2), pa.decimal128(38, 10), None),
    (pa.decimal128(20, 2), pa.float64(), None),
    (pa.string(), pa.binary(), None),
    (pa.bool_(), pa.int32(), None),
    (pa.date32(), pa.timestamp("us"), None),
    (pa.null(), pa.int32(), pa.int32()),
    (pa.dictionary(pa.int8(), pa.string()), pa.large_string(), pa.string()),
]


@pytest.mark.parametrize(("one", "other", "wider"), WIDER)
def test_types_are_widened_where_nothing_is_lost(one, other, wider):
    for first, second in ((one, other), (other, one)):
        schemas = pa.schema([("a", first)]), pa.schema([("A", second)])
        if wider is None:
            with pytest.raises(BadConfigurationError, match="2: the column 'a' is"):
                merge_schemas(*schemas, "2")
            assert merge_schemas(*schemas, "2", keeps=True) == schemas[0]
        else:
            assert merge_schemas(*schemas, "2") == pa.schema([("a", wider)])


def test_names_that_differ_in_case_are_one_unless_a_file_has_both():
    both = pa.schema([("a", pa.int32()), ("A", pa.string())])
    upper, lower = pa.schema([("A", pa.string())]), pa.schema([("a", pa.int64())])
    assert merge_schemas(both, upper, "2") == both == merge_schemas(pa.schema([("a", pa.int32())]), both, "2")
    assert merge_schemas(both, lower, "2") == pa.schema([("a", pa.int64()), ("A", pa.string())])


def test_csv_names_come_from_a_first_row(tmp_path, source_harness):
    (tmp_path / "1.csv").write_text("\n")
    (tmp_path / "2.csv").write_text("a,b\n" + "1,2020-01-01\n" * 400_000)
    for number in (1, 2):
        os.utime(tmp_path / f"{number}.csv", (number, number))
    options = {"format": "csv", "header": True, "inferSchema": True}
    for ratio in (0.1, 0.5, 1):
        schema = source_harness.source(tmp_path, **options, samplingRatio=ratio).infer_schema()
        assert schema == pa.schema([("a", pa.int64()), ("b", pa.date32())])
    (tmp_path / "2.csv").write_text("a,,b\n1,2,3\n")
    (tmp_path / "3.csv").write_text(f"a,,b\n{'x' * (2 << 20)},2,3\n")
    schema = source_harness.source(tmp_path, **options, enforceSchema=False).infer_schema()
    assert schema == pa.schema([("a", pa.string()), ("_c1", pa.int64()), ("b", pa.int64())])
    (tmp_path / "3.csv").unlink()
    (tmp_path / "2.csv").write_text("a1,a,A\n1,2,3\n")
    with pytest.raises(BadConfigurationError, match="CSV columns have the same name: a1, a1, A2; give a schema"):
        source_harness.source(tmp_path, **options).infer_schema()


def test_rows_that_the_reader_refuses_bring_the_column_for_them(tmp_path, source_harness):
    for row in ('{"s":"\\ud800"}', '{"s":1e999}', '{"s":%s}' % ("1" * 400)):
        (tmp_path / "1.json").write_text(f'{{"id":1}}\n{row}\n')
        schema = source_harness.source(tmp_path, format="json").infer_schema()
        assert schema.names == ["_corrupt_record", "id"], row


def test_digits_of_a_fraction_or_of_a_text_need_no_closer_look(tmp_path, source_harness, monkeypatch):
    rows = '{"x":0.0012345678901234567891,"id":"1234567890123456789012"}\n' * 5000
    (tmp_path / "1.json").write_text(rows)
    monkeypatch.setattr(JsonInference, "_of_rows", None)
    schema = source_harness.source(tmp_path, format="json").infer_schema()
    assert schema.types == [pa.string(), pa.float64()]


def test_numbers_without_a_sign_have_the_types_that_spark_has_for_them(tmp_path, source_harness):
    types = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    signed = [pa.int16(), pa.int32(), pa.int64(), pa.decimal128(20, 0)]
    most = [(1 << type_.bit_width) - 1 for type_ in types]
    nested = pa.struct([(str(type_), pa.list_(type_)) for type_ in types])
    columns = {str(type_): pa.array([value, None], type_) for type_, value in zip(types, most, strict=True)}
    rows = [{str(type_): [value] for type_, value in zip(types, most, strict=True)}, None]
    pq.write_table(pa.table({**columns, "n": pa.array(rows, nested)}), tmp_path / "a.parquet")
    source = source_harness.source(tmp_path, format="parquet")
    schema = source.infer_schema()
    assert schema.types[:-1] == [field.type.value_type for field in schema.types[-1]] == signed
    assert list(source_harness.read(source, schema).to_pylist()[0].values()) == [*most, rows[0]]
