"""Envelopes of Debezium in Avro, by the schemas of a registry."""

from __future__ import annotations

import json
import pickle
from io import BytesIO

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues
from penstock.serialization.avro import load
from penstock.serialization.ddl import parse_type
from penstock.serialization.formats import create_decoder, find_format
from penstock.serialization.formats._framing import NumberFraming
from penstock.serialization.formats._rows import Misfit
from suite.debezium_records import (
    CHANGES,
    COLUMNS,
    EXAMPLE,
    PRECISIONS,
    SOURCE,
    as_read,
    avro_schema,
    envelope,
    written,
)

fastavro = pytest.importorskip("fastavro")
TYPE = find_format("debezium").column_type(parse_type(COLUMNS))
URL = {"schema.registry.url": "http://127.0.0.1:9"}
WRITERS = [(precision, decimals) for precision in sorted(PRECISIONS) for decimals in ("precise", "string")]


class Schemas:
    """A registry: the schemas of :data:`WRITERS`, whose ids begin at 1, and some that are none of an envelope."""

    framing = NumberFraming()

    def __init__(self, options: OptionValues, language) -> None:
        self.texts = [json.dumps(avro_schema(*writer)) for writer in WRITERS]
        self.texts += [json.dumps({"type": "array", "items": "long"}), json.dumps(["null", "long", "string"])]

    def schema(self, schema_id):
        if not 0 < schema_id <= len(self.texts):
            raise Misfit(f"the schema registry has no Avro schema {schema_id}")
        return load("a schema", self.texts[schema_id - 1])

    def latest(self, subject):
        number = len(self.texts) if subject == "other" else 1 + WRITERS.index(("microseconds", "precise"))
        return number, self.schema(number)


@pytest.fixture(autouse=True, scope="module")
def registry():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.serialization.formats._debezium._avro.SchemaRegistry", Schemas)
        yield


def record(payload, writer):
    text = json.loads(json.dumps(avro_schema(*writer)).replace('"logicalType": "decimal"', '"was": "decimal"'))
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(text), payload)
    return b"\0" + (1 + WRITERS.index(writer)).to_bytes(4, "big") + out.getvalue()


def change(op, before, after, writer=("microseconds", "precise")):
    rows = [written(row, *writer, in_json=False) for row in (before, after)]
    return record(envelope(op, *rows), writer)


def decoded(records, type_=TYPE, **options):
    decoder = pickle.loads(pickle.dumps(create_decoder("debezium", {**URL, **options}, type_)))
    found = decoder.decode(pa.array(records, pa.binary()))
    found.column.validate(full=True)
    assert found.column.type == decoder.type and len(found.column) == len(records)
    return found.column.to_pylist(), [None] * len(records) if found.errors is None else found.errors.to_pylist()


@given(st.lists(st.tuples(CHANGES, st.sampled_from(WRITERS)), min_size=1, max_size=4))
@settings(max_examples=40)
def test_rows_come_back_as_they_were_whichever_schema_wrote_them(drawn):
    """A number of a timestamp is of another unit in the next schema."""
    rows, reasons = decoded([change(*one, writer) for one, writer in drawn])
    assert reasons == [None] * len(drawn)
    for row, ((op, before, after), (precision, _)) in zip(rows, drawn, strict=True):
        assert (row["op"], row["before"], row["after"]) == (op, as_read(before, precision), as_read(after, precision))
        assert json.loads(row["source"]["json"]) == SOURCE
        assert row["source"]["db"] == "orders" and row["source"]["ts"].microsecond == 123456


def test_the_registry_says_which_columns_there_are():
    decoder = create_decoder("debezium", {**URL, "topic": "shop.public.orders"})
    wanted = COLUMNS.replace("free decimal(20,4)", "free struct<scale: int, value: binary>")
    assert str(decoder.type.field("after").type) == str(parse_type(wanted))
    found = decoder.decode(pa.array([change("c", None, EXAMPLE)]))
    assert found.errors is None
    free = {"scale": 3, "value": (482).to_bytes(2, "big")}
    assert found.column[0].as_py()["after"] == {**EXAMPLE, "free": free}
    with pytest.raises(BadConfigurationError, match="not of an envelope"):
        create_decoder("debezium", {**URL, "subject": "other"})


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda one: one[:40], "not Avro of this schema"),
        (lambda one: one + b"\0", "1 bytes are left over"),
        (lambda one: b"\1" + one[1:], "does not begin with a zero byte"),
        (lambda one: b"\0\0", "does not begin with a zero byte"),
        (lambda one: b"\0\0\0\0\x63" + one[5:], "has no Avro schema 99"),
        (lambda one: b"\0\0\0\0\x0b" + one[5:], "schema 11 is not a record"),
        (lambda one: b"\0\0\0\0\x0c" + one[5:], "schema 12: the Avro union"),
    ],
)
def test_a_damaged_record_harms_no_other(damage, reason):
    good = change("u", EXAMPLE, EXAMPLE)
    rows, reasons = decoded([good, damage(good), None, good])
    assert [rows[1], rows[2], reasons[0], reasons[2], reasons[3]] == [None] * 5
    assert reason in reasons[1]
    assert rows[0] == rows[3] and rows[0]["after"] == EXAMPLE


def test_a_column_that_can_not_be_the_declared_type_is_named():
    type_ = find_format("debezium").column_type(parse_type("id int, free int"))
    rows, reasons = decoded([change("c", None, EXAMPLE)], type_)
    assert rows == [None] and reasons[0].startswith("field after.free") and "can't be int" in reasons[0]


def test_values_that_the_database_did_not_send():
    gone = b"__debezium_unavailable_value"
    row = {**written(EXAMPLE, in_json=False), "name": gone.decode(), "data": gone, "tags": [gone.decode()]}
    rows, reasons = decoded([record(envelope("u", None, row), ("microseconds", "precise"))])
    assert reasons == [None]
    assert rows[0]["unavailable"] == ["after.name", "after.data", "after.tags"]
    assert rows[0]["after"] == {**EXAMPLE, "name": None, "data": None, "tags": None}
