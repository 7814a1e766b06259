"""Protobuf records. What the bytes mean, Google's own package says."""

from __future__ import annotations

import pickle
import struct
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, BadDataError
from penstock.serialization.formats import create_decoder, create_encoder
from suite.protobuf_records import ORDER, PROTO2, compiled, descriptor_file

UTC = timezone.utc
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
SCALARS = {
    "i32": st.integers(-(2**31), 2**31 - 1),
    "s32": st.integers(-(2**31), 2**31 - 1),
    "sf32": st.integers(-(2**31), 2**31 - 1),
    "i64": st.integers(-(2**63), 2**63 - 1),
    "s64": st.integers(-(2**63), 2**63 - 1),
    "sf64": st.integers(-(2**63), 2**63 - 1),
    "u32": st.integers(0, 2**32 - 1),
    "f32": st.integers(0, 2**32 - 1),
    "u64": st.integers(0, 2**64 - 1),
    "f64": st.integers(0, 2**64 - 1),
    "ratio": st.floats(allow_nan=False),
    "single": st.floats(width=32, allow_nan=False),
    "flag": st.booleans(),
    "note": TEXTS,
    "raw": st.binary(max_size=5),
    "color": st.sampled_from([0, 1, -5]),
    "maybe": st.integers(-5, 5),
}
LINES = st.fixed_dictionaries({}, optional={"sku": TEXTS, "quantity": st.integers(-5, 5)})
TIMES = st.tuples(st.integers(-62_135_596_800, 253_402_300_799), st.integers(0, 999_999_999))
FIELDS = {
    **SCALARS,
    "colors": st.lists(st.sampled_from([0, 1, -5]), max_size=3),
    "numbers": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
    "lines": st.lists(LINES, max_size=3),
    "line": LINES,
    "names": st.dictionaries(st.integers(0, 2**32 - 1), TEXTS, max_size=3),
    "by_sku": st.dictionaries(TEXTS, LINES, max_size=3),
    "at": TIMES,
    "took": st.tuples(st.integers(0, 10**11), st.integers(0, 999_999_999)),
    "wrapped": st.integers(-5, 5),
    "wrapped_text": TEXTS,
}
MESSAGES = st.builds(
    lambda fields, choice: {**fields, **choice},
    st.fixed_dictionaries({}, optional=FIELDS),
    st.one_of(
        st.just({}),
        st.fixed_dictionaries({"card": TEXTS}),
        st.fixed_dictionaries({"cash": st.integers(-5, 5)}),
        st.fixed_dictionaries({"voucher": LINES}),
    ),
)
COLORS = {0: "RED", 1: "GREEN", -5: "BLUE"}
MICROS = timedelta(microseconds=1)


@pytest.fixture(scope="module")
def order(tmp_path_factory):
    pool, path = descriptor_file(tmp_path_factory.mktemp("descriptors"), {"order.proto": ORDER})
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order")), {"descriptorFile": path, "message": "shop.Order"}


def message_of(cls, fields):
    message = cls()
    for name, value in fields.items():
        if name in ("at", "took"):
            part = getattr(message, name)
            part.SetInParent()
            part.seconds, part.nanos = value
        elif name in ("line", "voucher"):
            getattr(message, name).SetInParent()
            for key, one in value.items():
                setattr(getattr(message, name), key, one)
        elif name == "lines":
            for line in value:
                message.lines.add(**line)
        elif name in ("wrapped", "wrapped_text"):
            getattr(message, name).SetInParent()
            getattr(message, name).value = value
        elif name == "by_sku":
            for key, line in value.items():
                message.by_sku[key].SetInParent()
                for part, one in line.items():
                    setattr(message.by_sku[key], part, one)
        elif isinstance(value, dict):
            getattr(message, name).update(value)
        elif isinstance(value, list):
            getattr(message, name).extend(value)
        else:
            setattr(message, name, value)
    return message


def row_of(message, *, present=True):
    """The row for a message, field by field as the docs have it."""
    if not present:
        return None
    row = {}
    for field in message.DESCRIPTOR.fields:
        name, value = field.name, getattr(message, field.name)
        kind = field.message_type.full_name if field.message_type is not None else ""
        if kind and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"].message_type
            row[name] = sorted((key, row_of(value[key]) if inner is not None else value[key]) for key in value)
        elif field.is_repeated:
            row[name] = [
                row_of(one) if kind else COLORS.get(one, str(one)) if field.enum_type else one for one in value
            ]
        elif field.has_presence and not message.HasField(name):
            row[name] = None
        elif kind == "google.protobuf.Timestamp" or kind == "google.protobuf.Duration":
            row[name] = value.seconds * 1_000_000 + value.nanos // 1000
        elif kind.startswith("google.protobuf."):
            row[name] = value.value
        elif kind:
            row[name] = row_of(value)
        else:
            row[name] = COLORS.get(value, str(value)) if field.enum_type else value
    return row


def rows(column):
    """The rows with times as microseconds, decimals as numbers and maps in order."""
    plain = [
        ("at", pa.int64()),
        ("took", pa.int64()),
    ]
    names = [field.name for field in column.type]
    children = column.flatten()
    for name, type_ in plain:
        if name in names:
            children[names.index(name)] = children[names.index(name)].cast(type_)
    found = pa.StructArray.from_arrays(children, names=names, mask=column.is_null()).to_pylist()
    return [row and {name: _plain(name, value) for name, value in row.items()} for row in found]


def _plain(name, value):
    if isinstance(value, Decimal):
        return int(value)
    return sorted(value) if name in ("names", "by_sku") and value is not None else value


def binary(values):
    return pa.array(values, pa.binary())


@settings(max_examples=60)
@given(fields=st.lists(st.none() | MESSAGES, min_size=1, max_size=5))
def test_any_message_is_read_and_written_as_google_has_it(order, fields):
    cls, options = order
    messages = [None if one is None else message_of(cls, one) for one in fields]
    decoder = pickle.loads(pickle.dumps(create_decoder("protobuf", options)))
    decoded = decoder.decode(binary([one and one.SerializeToString() for one in messages]).slice(0))
    expected = [one and row_of(one) for one in messages]
    assert decoded.errors is None and decoded.column.type == decoder.type
    decoded.column.validate(full=True)
    assert rows(decoded.column) == expected
    encoder = pickle.loads(pickle.dumps(create_encoder("protobuf", options, decoder.type)))
    written = encoder.encode(pa.concat_arrays([pa.nulls(1, decoder.type), decoded.column]).slice(1)).to_pylist()
    assert [None if one is None else row_of(cls.FromString(one)) for one in written] == expected


def test_parts_of_a_message_that_come_apart_are_put_together(order):
    cls, options = order
    one = message_of(cls, {"line": {"sku": "x"}, "lines": [{}], "numbers": [1], "names": {1: "a", 2: "b"}, "note": "n"})
    other = message_of(cls, {"line": {"quantity": 3}, "lines": [{"sku": "y"}], "numbers": [2], "names": {1: "c"}})
    both = one.SerializeToString() + other.SerializeToString()
    decoded = create_decoder("protobuf", options).decode(binary([both, one.SerializeToString()]))
    assert rows(decoded.column) == [row_of(cls.FromString(both)), row_of(one)]


def test_an_entry_of_a_map_without_its_value_has_the_default(order):
    cls, options = order
    number = cls.DESCRIPTOR.fields_by_name["by_sku"].number
    entry = bytes([number << 3 & 0x7F | 0x82, number >> 4, 0])  # of no bytes
    decoded = create_decoder("protobuf", options).decode(binary([entry]))
    assert rows(decoded.column) == [row_of(cls.FromString(entry))]
    assert decoded.column[0].as_py()["by_sku"] == [("", {"sku": "", "quantity": 0})]


def test_the_type_of_each_kind_of_field(order):
    type_ = create_decoder("protobuf", order[1]).type
    line = pa.struct([("sku", pa.string()), ("quantity", pa.int32())])
    expected = {
        "i32": pa.int32(),
        "i64": pa.int64(),
        "u32": pa.int64(),
        "u64": pa.decimal128(20, 0),
        "color": pa.string(),
        "raw": pa.binary(),
        "lines": pa.list_(pa.field("element", line)),
        "by_sku": pa.map_(pa.string(), line),
        "names": pa.map_(pa.int64(), pa.string()),
        "at": pa.timestamp("us", "UTC"),
        "took": pa.duration("us"),
        "wrapped": pa.int64(),
        "wrapped_text": pa.string(),
        "voucher": line,
    }
    assert {name: type_.field(name).type for name in expected} == expected


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda order: b"\x08", "not a shop.Order: ValueError: failed to decode"),
        (lambda order: b"\xff\xff\xff", "not a shop.Order"),
        (lambda order: order(note="abc").SerializeToString()[:-1], "not a shop.Order"),
        (lambda order: order(note="abc").SerializeToString()[:-1] + b"\xff", "invalid UTF-8"),
        (lambda order: order(card="a").SerializeToString() + order(cash=1).SerializeToString(), "has several of the"),
        (lambda order: message_of(order, {"at": (2**50, 0)}).SerializeToString(), "Timestamp is out of its range"),
        (lambda order: message_of(order, {"at": (-(2**62), 0)}).SerializeToString(), "Timestamp is out of its range"),
        (lambda order: message_of(order, {"took": (2**62, 0)}).SerializeToString(), "Duration is out of its range"),
    ],
)
def test_a_bad_record_harms_no_other(order, damage, reason):
    cls, options = order
    good = cls(i32=1).SerializeToString()
    decoded = create_decoder("protobuf", options).decode(binary([good, None, damage(cls), good]))
    errors = decoded.errors.to_pylist()
    assert errors[2] is not None and reason in errors[2]
    assert errors[:2] + errors[3:] == [None, None, None]
    assert [row and row["i32"] for row in decoded.column.to_pylist()] == [1, None, None, 1]


@settings(max_examples=300)
@given(data=st.binary(max_size=60))
def test_garbage_never_raises_and_is_read_as_google_reads_it(order, data):
    cls, options = order
    decoded = create_decoder("protobuf", options).decode(binary([data]))
    try:
        message = cls.FromString(data)
    except DecodeError:
        return  # a group that does not end is passed over
    if decoded.errors is None:
        assert repr(rows(decoded.column)) == repr([row_of(message)])  # the text, as a number may be none


def test_a_schema_of_ones_own_chooses_fields_and_may_cast_them(order):
    cls, options = order
    wanted = pa.struct(
        [
            ("lines", pa.list_(pa.struct([("quantity", pa.int64())]))),
            ("u64", pa.int64()),
            ("at", pa.timestamp("us", "UTC")),
        ]
    )
    decoder = create_decoder("protobuf", options, wanted)
    assert [field.name for field in decoder.type] == ["lines", "u64", "at"]
    message = message_of(cls, {"lines": [{"sku": "a", "quantity": 2}], "u64": 7, "at": (1, 0)})
    decoded = decoder.decode(binary([message.SerializeToString(), cls(u64=2**64 - 1).SerializeToString()]))
    assert decoded.column.to_pylist() == [
        {"lines": [{"quantity": 2}], "u64": 7, "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)},
        None,
    ]
    assert "not a shop.Order" in decoded.errors[1].as_py()


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (pa.int64(), "is for struct columns, not bigint"),
        (pa.struct([("nothing", pa.int64())]), "shop.Order has no field 'nothing'"),
        (pa.struct([("lines", pa.int64())]), "Order.lines is a list, which can't be bigint"),
        (pa.struct([("names", pa.list_(pa.int64()))]), "Order.names is a map"),
        (pa.struct([("line", pa.string())]), r"Order.line is a message \(shop.Line\)"),
        (pa.struct([("flag", pa.timestamp("us"))]), "Order.flag is boolean, which can't be timestamp_ntz"),
        (pa.struct([("line", pa.struct([("x", pa.string())]))]), "shop.Line has no field 'x'"),
    ],
)
def test_a_schema_that_the_message_has_not(order, wanted, reason):
    with pytest.raises(BadConfigurationError, match=reason):
        create_decoder("protobuf", order[1], wanted)


def test_a_message_that_contains_itself(tmp_path):
    text = 'syntax = "proto3"; message Node { int32 v = 1; Node next = 2; repeated Node kids = 3; }'
    pool, path = descriptor_file(tmp_path, {"node.proto": text})
    options = {"descriptorFile": path}
    with pytest.raises(BadConfigurationError, match=r"Node.next is of the type Node, which contains itself: declare"):
        create_decoder("protobuf", options)
    cls = GetMessageClass(pool.FindMessageTypeByName("Node"))
    message = cls(v=1, next=cls(v=2, next=cls(v=3)), kids=[cls(v=4)])
    flat = create_decoder("protobuf", options, pa.struct([("v", pa.int32())]))
    assert flat.decode(binary([message.SerializeToString()])).column.to_pylist() == [{"v": 1}]
    bytes_ = pa.struct([("next", pa.binary()), ("kids", pa.list_(pa.binary()))])
    (row,) = (
        create_decoder("protobuf", options, bytes_).decode(binary([message.SerializeToString()])).column.to_pylist()
    )
    assert cls.FromString(row["next"]) == message.next and [cls.FromString(one) for one in row["kids"]] == [cls(v=4)]


def test_presence_defaults_and_required_fields_of_proto2(tmp_path):
    pool, path = descriptor_file(tmp_path, {"old.proto": PROTO2})
    cls = GetMessageClass(pool.FindMessageTypeByName("old.Record"))
    decoder = create_decoder("protobuf", {"descriptorFile": path, "message": "old.Record"})
    full = cls(id=1, name="", count=0, color="RED", numbers=[1], packed=[2])
    decoded = decoder.decode(binary([full.SerializeToString(), cls(id=2).SerializeToString(), b""]))
    assert decoded.column.to_pylist() == [
        {"id": 1, "name": "", "count": 0, "color": "RED", "numbers": [1], "packed": [2]},
        {"id": 2, "name": "none", "count": None, "color": "GREEN", "numbers": [], "packed": []},
        None,
    ]
    assert decoded.errors[2].as_py() == "old.Record lacks the field 'id', which is required"
    options = {"descriptorFile": path, "message": "old.Record"}
    with pytest.raises(BadConfigurationError, match="lacks the field 'id', which is required"):
        create_encoder("protobuf", options, pa.struct([("name", pa.string())]))
    type_ = pa.struct([("id", pa.int64())])
    with pytest.raises(BadDataError, match=r"row 1 of the batch can't be written: old.Record lacks the field 'id'"):
        create_encoder("protobuf", options, type_).encode(pa.array([{"id": 1}, {"id": None}], type_))


@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        (pa.list_(pa.int32()), {"numbers": [1, None]}, "the list 'numbers' has a null, which Protobuf can't hold"),
        (pa.map_(pa.int64(), pa.string()), {"names": [(1, None)]}, "the map 'names' has a null"),
        (pa.map_(pa.int64(), pa.string()), {"names": [(-1, "x")]}, "not in range"),
        (pa.string(), {"color": "PINK"}, "the enum shop.Color has no 'PINK'"),
        (pa.string(), {"color": "1"}, "the enum shop.Color has no '1'"),
        (pa.list_(pa.string()), {"colors": ["RED", "PINK"]}, "the enum shop.Color has no 'PINK'"),
        (pa.int64(), {"u32": 2**32}, "not in range"),
        (pa.int64(), {"u64": -1}, "not in range"),
        (pa.decimal128(38, 0), {"u64": Decimal(2**64)}, "out of bounds"),
        (pa.timestamp("us", "UTC"), {"at": -(2**62)}, "Timestamp is out of its range"),
        (pa.duration("us"), {"took": 2**62}, "Duration is out of its range"),
    ],
)
def test_a_value_that_protobuf_can_not_hold_is_no_default(order, type_, value, reason):
    (name,) = value
    column = pa.struct([(name, type_)])
    good = pa.array([None, {name: None}], column)
    encoder = create_encoder("protobuf", order[1], column)
    assert encoder.encode(good).to_pylist() == [None, b""]
    with pytest.raises(BadDataError, match="row 2 of the batch can't be written") as caught:
        encoder.encode(pa.concat_arrays([good, pa.array([value], column)]))
    assert reason in str(caught.value)


def test_two_fields_of_a_oneof_are_not_written(order):
    column = pa.struct([("card", pa.string()), ("cash", pa.int64())])
    encoder = create_encoder("protobuf", order[1], column)
    with pytest.raises(BadDataError, match=r"row 0 .* has several of the fields card, cash, voucher"):
        encoder.encode(pa.array([{"card": "a", "cash": 1}], column))


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        (pa.int64(), "is for struct columns"),
        (pa.struct([("nothing", pa.int64())]), "has no field 'nothing': leave it out of Order"),
        (pa.struct([("i32", pa.int64())]), "Order.i32 is bigint, and the message has int: cast it"),
        (pa.struct([("note", pa.int64())]), "Order.note is bigint, and the message has string"),
        (pa.struct([("color", pa.int32())]), "Order.color is int, and the message has string"),
        (pa.struct([("at", pa.timestamp("us"))]), r"Order.at is timestamp_ntz, and the message has timestamp"),
        (pa.struct([("lines", pa.string())]), "and the message has a list"),
        (pa.struct([("names", pa.string())]), "and the message has a map"),
        (pa.struct([("line", pa.string())]), r"and the message has a message \(shop.Line\)"),
        (pa.struct([("single", pa.float64())]), "Order.single is double, and the message has float"),
        (
            pa.struct([("line", pa.struct([("x", pa.string())]))]),
            "shop.Line has no field 'x': leave it out of Order.line",
        ),
    ],
)
def test_a_column_that_the_message_can_not_hold(order, type_, reason):
    with pytest.raises(BadConfigurationError, match=reason):
        create_encoder("protobuf", order[1], type_)


def test_smaller_types_are_written(order):
    cls, options = order
    type_ = pa.struct([("i32", pa.int8()), ("u64", pa.int16()), ("ratio", pa.float32()), ("note", pa.large_string())])
    encoder = create_encoder("protobuf", options, type_)
    row = {"i32": -1, "u64": 5, "ratio": 0.5, "note": "é"}
    (record,) = encoder.encode(pa.array([row], type_)).to_pylist()
    assert cls.FromString(record) == cls(**row)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"descriptorFile": None}, r"needs the option 'descriptorFile' \(what protoc"),
        (
            {"message": "Order"},
            "schema has no message 'Order'; it has shop.Line, shop.Order",
        ),
        ({"message": None}, "needs the option 'message', one of: shop.Line, shop.Order"),
        ({"descriptorFile": "/nowhere"}, "option 'descriptorFile': can't be read"),
        ({"descriptorFile": __file__}, "is not what protoc --include_imports"),
    ],
)
def test_options_that_are_wrong(order, change, reason):
    options = {name: value for name, value in {**order[1], **change}.items() if value is not None}
    with pytest.raises(BadConfigurationError, match=reason):
        create_decoder("protobuf", options)


def test_a_descriptor_file_without_its_imports_says_which(tmp_path):
    files = {"a.proto": 'syntax = "proto3"; message A { int32 x = 1; }', "b.proto": _IMPORTS}
    alone = compiled(files).file[-1]
    path = tmp_path / "alone.desc"
    path.write_bytes(type(compiled(files))(file=[alone]).SerializeToString())
    with pytest.raises(BadConfigurationError, match=r"imports a.proto, which is not there: write it with"):
        create_decoder("protobuf", {"descriptorFile": str(path)})


_IMPORTS = 'syntax = "proto3"; import "a.proto"; import "google/protobuf/timestamp.proto"; message B { A a = 1; }'


def test_groups_are_refused(tmp_path):
    text = 'syntax = "proto2"; message M { optional int32 x = 1; repeated group G = 2 { optional int32 y = 1; } }'
    pool, path = descriptor_file(tmp_path, {"m.proto": text})
    options = {"descriptorFile": path}
    with pytest.raises(BadConfigurationError, match=r"no column for M.g.element of type group: leave it out"):
        create_decoder("protobuf", options)
    with pytest.raises(BadConfigurationError, match=r"no column for M.g.element of type group: leave it out"):
        create_encoder("protobuf", options, pa.struct([("g", pa.list_(pa.struct([("y", pa.int32())])))]))
    message = GetMessageClass(pool.FindMessageTypeByName("M"))(x=3)
    message.g.add(y=5)
    decoder = create_decoder("protobuf", options, pa.struct([("x", pa.int32())]))
    assert decoder.decode(binary([message.SerializeToString()])).column.to_pylist() == [{"x": 3}]


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("google.type.TimeOfDay t = 1;", "no column for M.t of type google.type.TimeOfDay: leave it out"),
        ("google.type.Date d = 1;", "no column for M.d of type google.type.Date: leave it out"),
        ("google.protobuf.Empty e = 1;", "M.e has no fields: leave it out"),
        ("", "M has no fields"),
    ],
)
def test_fields_that_have_no_column(tmp_path, field, reason):
    imports = (
        'import "google/type/date.proto"; import "google/type/timeofday.proto"; import "google/protobuf/empty.proto";'
    )
    _, path = descriptor_file(tmp_path, {"m.proto": f'syntax = "proto3"; {imports} message M {{ {field} }}'})
    with pytest.raises(BadConfigurationError, match=reason):
        create_decoder("protobuf", {"descriptorFile": path})


def test_floats_keep_their_bits(order):
    cls, options = order
    bits = [0x7FC00001, 0x7F800000, 0xFF800000, 0x80000000]
    number = cls.DESCRIPTOR.fields_by_name["single"].number
    records = [bytes([number << 3 & 0x7F | 0x80 | 5, number >> 4]) + struct.pack("<I", one) for one in bits]
    column = create_decoder("protobuf", options, pa.struct([("single", pa.float32())])).decode(binary(records)).column
    assert [struct.unpack("<I", struct.pack("<f", row["single"]))[0] for row in column.to_pylist()][1:] == bits[1:]


def test_without_the_package_the_message_names_the_extra(monkeypatch):
    for name in [name for name in __import__("sys").modules if "formats._protobuf" in name]:
        monkeypatch.delitem(__import__("sys").modules, name)
    monkeypatch.setitem(__import__("sys").modules, "ptars", None)
    with pytest.raises(BadConfigurationError, match=r"pip install 'penstock\[protobuf\]'"):
        create_decoder("protobuf", {})
