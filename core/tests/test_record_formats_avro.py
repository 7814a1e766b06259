"""Avro records without a registry."""

from __future__ import annotations

import json
import pickle
from datetime import date, datetime, time, timezone
from decimal import Decimal
from io import BytesIO
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, BadDataError
from penstock.serialization.formats import create_decoder, create_encoder

UTC = timezone.utc
TYPE = pa.struct(
    [
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("big", pa.int64()),
        ("ratio", pa.float64()),
        ("single", pa.float32()),
        ("price", pa.decimal128(10, 2)),
        ("text", pa.string()),
        ("blob", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("clock", pa.time64("us")),
        ("tags", pa.list_(pa.string())),
        ("stamps", pa.list_(pa.timestamp("us", "UTC"))),
        ("counts", pa.map_(pa.string(), pa.struct([("n", pa.int32())]))),
        (
            "place",
            pa.struct([("lat", pa.float64()), ("since", pa.date32()), ("names", pa.map_(pa.string(), pa.string()))]),
        ),
    ]
)
ROW = {
    "flag": True,
    "small": -(2**31),
    "big": 2**62,
    "ratio": 0.1,
    "single": 0.5,
    "price": Decimal("-12.50"),
    "text": "é\0",
    "blob": b"\0\xff",
    "day": date(1969, 12, 31),
    "at": datetime(1900, 1, 1, 12, 0, 0, 123456, UTC),
    "local": datetime(2024, 1, 1, 12),
    "clock": time(23, 59, 59, 999999),
    "tags": ["a", None, ""],
    "stamps": [datetime(2024, 1, 1, tzinfo=UTC), None],
    "counts": [("a", {"n": 1}), ("b", None)],
    "place": {"lat": 1.5, "since": date(2024, 2, 29), "names": [("x", "y")]},
}


def binary(values):
    return pa.array(values, pa.binary())


def written(schema, *values):
    records = []
    for value in values:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
        records.append(stream.getvalue())
    return binary(records)


def decoder(schema, **options):
    return create_decoder("avro", {"schema": json.dumps(schema), **options})


def record(*fields, name="r"):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def derived(type_, **options):
    """The schema that an encoder derives, as another reader has to know it."""
    from penstock.serialization.avro import arrow_to_avro

    return arrow_to_avro(type_, "topLevelRecord", options.get("namespace", ""))


def test_what_is_written_is_read_again():
    empty = dict.fromkeys(ROW)
    column = pa.array([ROW, None, empty], TYPE)
    records = pickle.loads(pickle.dumps(create_encoder("avro", {}, TYPE))).encode(column)
    reading = pickle.loads(pickle.dumps(decoder(derived(TYPE))))
    decoded = reading.decode(records)
    assert reading.type == TYPE == decoded.column.type
    assert decoded.errors is None
    assert decoded.column.to_pylist() == [ROW, None, empty]
    assert reading.decode(records.slice(1)).column.to_pylist() == [None, empty]
    assert create_encoder("avro", {}, TYPE).encode(column.slice(1)).to_pylist() == records.to_pylist()[1:]


def test_what_is_written_is_read_by_fastavro():
    (value,) = create_encoder("avro", {}, TYPE).encode(pa.array([ROW], TYPE)).to_pylist()
    found = fastavro.schemaless_reader(BytesIO(value), fastavro.parse_schema(derived(TYPE)), None)
    maps = {"counts": dict(ROW["counts"]), "place": {**ROW["place"], "names": {"x": "y"}}}
    assert found == {**ROW, **maps}


_VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.date32(): st.dates(),
    pa.decimal128(38, 6): st.decimals(-(10**30), 10**30, places=6, allow_nan=False),
    pa.list_(pa.int32()): st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=3),
}


@given(st.data())
@settings(max_examples=80)
def test_any_value_of_any_type_survives(data):
    kinds = data.draw(st.lists(st.sampled_from(list(_VALUES)), min_size=1, max_size=4))
    type_ = pa.struct([(f"f{n}", kind) for n, kind in enumerate(kinds)])
    row = st.fixed_dictionaries({f"f{n}": st.none() | _VALUES[kind] for n, kind in enumerate(kinds)})
    column = pa.array(data.draw(st.lists(st.none() | row, max_size=5)), type_)
    decoded = decoder(derived(type_)).decode(create_encoder("avro", {}, type_).encode(column))
    assert decoded.errors is None and decoded.column.equals(column)


@pytest.mark.parametrize(
    ("schema", "type_", "value", "expected"),
    [
        ("string", pa.string(), "é", "é"),
        ("long", pa.int64(), -1, -1),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, pa.string(), "B", "B"),
        ({"type": "fixed", "name": "f", "size": 2}, pa.binary(), b"ab", b"ab"),
        ({"type": "string", "logicalType": "uuid"}, pa.string(), UUID(int=1), str(UUID(int=1))),
        ({"type": "int", "logicalType": "time-millis"}, pa.time64("us"), time(1, 2, 3, 4000), time(1, 2, 3, 4000)),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            pa.timestamp("us", "UTC"),
            datetime(2024, 1, 1, 0, 0, 0, 5000, UTC),
            datetime(2024, 1, 1, 0, 0, 0, 5000, UTC),
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-millis"},
            pa.timestamp("us"),
            1000,
            datetime(1970, 1, 1, 0, 0, 1),
        ),
        (
            {"type": "fixed", "name": "d", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 3},
            pa.decimal128(9, 3),
            Decimal("-1.250"),
            Decimal("-1.250"),
        ),
        (["null", "string"], pa.string(), "x", "x"),
        (["int", "null", "long"], pa.int64(), 2**40, 2**40),
        (["float", "double"], pa.float64(), 0.1, 0.1),
        ({"type": "string", "logicalType": "of-our-own"}, pa.string(), "x", "x"),
        ({"type": "string", "logicalType": "date"}, pa.string(), "x", "x"),
        (
            {"type": "map", "values": {"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}}},
            pa.map_(pa.string(), pa.list_(pa.timestamp("us", "UTC"))),
            {"a": [1000]},
            [("a", [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)])],
        ),
    ],
)
def test_types_of_avro(schema, type_, value, expected):
    for wrapped in (False, True):
        reading = decoder(record(("x", schema)) if wrapped else schema)
        decoded = reading.decode(written(record(("x", schema)), {"x": value}) if wrapped else written(schema, value))
        assert decoded.errors is None
        assert reading.type == decoded.column.type == (pa.struct([("x", type_)]) if wrapped else type_)
        assert decoded.column.to_pylist() == [{"x": expected} if wrapped else expected]


def test_named_types_used_twice_with_namespaces():
    money = record(("amount", "long"), name="Money")
    schema = {
        **record(("net", money), ("tax", "Money"), ("all", {"type": "array", "items": "shop.Money"})),
        "namespace": "shop",
    }
    value = {"net": {"amount": 1}, "tax": {"amount": 2}, "all": [{"amount": 3}]}
    assert decoder(schema).decode(written(schema, value)).column.to_pylist() == [value]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (record(("next", ["null", "r"])), "contains itself"),
        (["string", "long"], "union of string, bigint has no column type"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 60}, "60 digits"),
        ("strin", "option 'schema' is not an Avro schema: UnknownType"),
        ({"type": "record"}, "option 'schema' is not an Avro schema"),
    ],
)
def test_schemas_without_a_column_type_are_refused(schema, message):
    with pytest.raises(BadConfigurationError, match=message):
        decoder(schema)
    with pytest.raises(BadConfigurationError, match="JSONDecodeError"):
        create_decoder("avro", {"schema": "{"})
    with pytest.raises(BadConfigurationError, match=r"'schema' .* or 'schema\.registry\.url'"):
        create_decoder("avro", {})


def test_bad_records_do_not_harm_their_neighbours():
    schema = record(("n", "long"), ("s", "string"), ("e", {"type": "enum", "name": "e", "symbols": ["A"]}))
    rows = written(schema, *({"n": n, "s": f"text {n}", "e": "A"} for n in range(300))).to_pylist()
    bad = [b"", b"\x02", rows[0][:-1], rows[0] + b"\0", b"\xff" * 12, b"\x02\x04\xff\xff\0", b"\x02\0\x08", b"\0\x7f\0"]
    for n, value in enumerate(bad):
        rows[3 + 7 * n] = value
    rows[5] = None
    decoded = decoder(schema).decode(binary(rows))
    wrong = [3 + 7 * n for n in range(len(bad))]
    assert [n for n, error in enumerate(decoded.errors.to_pylist()) if error] == wrong
    assert all(error is None or error.startswith("not Avro of this schema") for error in decoded.errors.to_pylist())
    for n, row in enumerate(decoded.column.to_pylist()):
        assert row == (None if n in wrong or n == 5 else {"n": n, "s": f"text {n}", "e": "A"})


def test_values_that_no_column_holds_are_errors_of_their_rows():
    money = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    plain = record(("m", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}))
    rows = written(plain, {"m": Decimal("1.00")}, {"m": Decimal("12345.00")}, {"m": Decimal("2.00")})
    decoded = decoder(record(("m", money))).decode(rows)
    assert decoded.column.to_pylist() == [{"m": Decimal("1.00")}, None, {"m": Decimal("2.00")}]
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    decoded = decoder(millis).decode(written("long", 0, 2**62))
    assert decoded.column.is_valid().to_pylist() == [True, False]
    assert decoded.errors[1].as_py().startswith("does not fit the column")


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_garbage_never_raises(values):
    decoded = decoder(derived(TYPE)).decode(binary(values))
    errors = [None] * len(values) if decoded.errors is None else decoded.errors.to_pylist()
    assert len(decoded.column) == len(values)
    assert [v.as_py() for v in decoded.column.is_valid()] == [error is None for error in errors]


def test_a_reader_schema_resolves_old_records():
    old = record(("n", "int"), ("gone", "string"), ("at", {"type": "long", "logicalType": "timestamp-millis"}))
    new = record(("n", "long"), ("at", {"type": "long", "logicalType": "timestamp-micros"}))
    new["fields"].append({"name": "more", "type": ["null", "string"], "default": None})
    moment = datetime(2024, 1, 1, 0, 0, 0, 5000, UTC)
    reading = decoder(old, readerSchema=json.dumps(new))
    decoded = reading.decode(written(old, {"n": 1, "gone": "x", "at": moment}))
    assert decoded.errors is None
    assert decoded.column.to_pylist() == [{"n": 1, "at": moment, "more": None}]
    assert reading.type == pa.struct([("n", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("more", pa.string())])


def test_a_plain_number_that_a_reader_takes_for_a_time_and_the_other_way_round():
    millis, plain = record(("at", {"type": "long", "logicalType": "timestamp-millis"})), record(("at", "long"))
    decoded = decoder(plain, readerSchema=json.dumps(millis)).decode(written(plain, {"at": 1000}))
    assert decoded.column.to_pylist() == [{"at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}]
    decoded = decoder(millis, readerSchema=json.dumps(plain)).decode(written(plain, {"at": 1000}))
    assert decoded.column.to_pylist() == [{"at": 1000}]


def test_the_wanted_type_is_cast_to():
    schema = record(("n", "int"), ("m", {"type": "map", "values": "int"}))
    wanted = pa.struct([("n", pa.int64()), ("m", pa.map_(pa.string(), pa.int64()))])
    reading = create_decoder("avro", {"schema": json.dumps(schema)}, wanted)
    assert reading.decode(written(schema, {"n": 1, "m": {"a": 2}})).column.equals(
        pa.array([{"n": 1, "m": [("a", 2)]}], wanted)
    )
    with pytest.raises(BadConfigurationError, match="can't be cast to bool"):
        create_decoder("avro", {"schema": json.dumps(record(("n", "int")))}, pa.bool_())


def test_writing_with_a_given_schema():
    schema = record(
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("kind", {"type": "enum", "name": "kind", "symbols": ["A", "B"]}),
        ("n", ["null", "long"]),
        ("id", {"type": "string", "logicalType": "uuid"}),
    )
    schema["fields"].append({"name": "more", "type": "string", "default": "as given"})
    type_ = pa.struct(
        [("n", pa.int32()), ("kind", pa.string()), ("at", pa.timestamp("us", "UTC")), ("id", pa.string())]
    )
    moment = datetime(2024, 1, 1, 0, 0, 0, 5678, UTC)
    rows = [{"n": 1, "kind": "B", "at": moment, "id": str(UUID(int=7))}, None]
    encoder = create_encoder("avro", {"schema": json.dumps(schema)}, type_)
    values = encoder.encode(pa.array(rows, type_))
    (found, nothing) = decoder(schema).decode(values).column.to_pylist()
    assert found == {**rows[0], "at": moment.replace(microsecond=5000), "more": "as given"} and nothing is None
    with pytest.raises(BadDataError, match=r"row 1 of the batch can't be written: .*C"):
        encoder.encode(pa.array([rows[0], {**rows[0], "kind": "C"}], type_))
    with pytest.raises(BadDataError, match="row 0 of the batch can't be written"):
        encoder.encode(pa.array([{**rows[0], "at": None}], type_))


def test_a_key_that_is_no_record():
    encoder = create_encoder("avro", {}, pa.string())
    assert encoder.encode(pa.array(["a", None])).to_pylist() == [b"\x02a", None]
    times = create_encoder("avro", {}, pa.timestamp("us", "UTC")).encode(pa.array([1, None], pa.timestamp("us", "UTC")))
    assert times.to_pylist() == [b"\x02", None]


@pytest.mark.parametrize(
    ("type_", "schema", "message"),
    [
        (pa.struct([("n", pa.int64())]), record(("n", "int")), "n is bigint, which the schema's int can't hold"),
        (pa.struct([("n", pa.string())]), record(("n", ["null", "long"])), "n is string, which the schema's long"),
        (pa.struct([("n", pa.int64()), ("x", pa.int8())]), record(("n", "long")), "has no field 'x' in the column"),
        (pa.struct([("n", pa.int64())]), record(("n", "long"), ("m", "long")), "lacks the field 'm'"),
        (
            pa.struct([("a", pa.list_(pa.struct([("b", pa.timestamp("us"))])))]),
            record(
                (
                    "a",
                    {
                        "type": "array",
                        "items": record(("b", {"type": "long", "logicalType": "timestamp-micros"}), name="q"),
                    },
                )
            ),
            r"a\[\]\.b is timestamp_ntz, which the schema's long \(timestamp-micros\)",
        ),
        (
            pa.struct([("d", pa.decimal128(5, 3))]),
            record(("d", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})),
            "d is decimal",
        ),
        (pa.struct([("n", pa.int64())]), "string", "the column is struct"),
        (pa.int64(), "null", "the column is bigint"),
        (pa.int64(), ["null"], "can only be null"),
    ],
)
def test_columns_that_do_not_fit_a_schema_are_refused(type_, schema, message):
    with pytest.raises(BadConfigurationError, match=message):
        create_encoder("avro", {"schema": json.dumps(schema)}, type_)


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (pa.struct([("a b", pa.int64())]), "'a b' is not a name that Avro allows"),
        (pa.struct([("a", pa.duration("s"))]), "no form for 'a' of type duration"),
        (pa.struct([("a", pa.map_(pa.int64(), pa.int64()))]), "keys of the map 'a' must be strings"),
        (None, "needs the type"),
    ],
)
def test_columns_without_an_avro_form_are_refused(type_, message):
    with pytest.raises(BadConfigurationError, match=message):
        create_encoder("avro", {}, type_)


def test_an_empty_batch_and_a_batch_of_nulls():
    assert decoder("int").decode(binary([])).column.equals(pa.array([], pa.int32()))
    assert decoder("int").decode(binary([None])).column.equals(pa.array([None], pa.int32()))
    assert create_encoder("avro", {}, pa.int64()).encode(pa.array([], pa.int64())).equals(binary([]))


def test_the_name_of_a_derived_record_and_fields_that_are_never_null():
    type_ = pa.struct([pa.field("n", pa.int64(), nullable=False), pa.field("s", pa.struct([("x", pa.string())]))])
    assert derived(type_, namespace="shop") == {
        "type": "record",
        "name": "topLevelRecord",
        "namespace": "shop",
        "fields": [
            {"name": "n", "type": "long"},
            {
                "name": "s",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "topLevelRecord_s",
                        "fields": [{"name": "x", "type": ["null", "string"], "default": None}],
                    },
                ],
                "default": None,
            },
        ],
    }
