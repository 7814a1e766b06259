"""Decimals of any digits and scale: a number that does not fit its column is refused, and never another number."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.serialization.formats import create_decoder
from penstock.serialization.values import cast_column
from suite.drawn_decimals import EXACT, decimal_types, numbers_of


def held(number, type_):
    """The number as the type holds it; ``None`` if it has too many digits before or behind the point."""
    scaled = number.scaleb(type_.scale, EXACT)
    return number if scaled == int(scaled) and scaled.copy_abs() < 10**type_.precision else None


@given(given_type=decimal_types(), wanted=decimal_types(), data=st.data(), nested=st.sampled_from(["", "l", "s", "m"]))
@example(pa.decimal128(38, 0), pa.decimal128(38, 38), None, "")
def test_a_cast_keeps_the_number_or_refuses_it(given_type, wanted, data, nested):
    number = Decimal(409) if data is None else data.draw(numbers_of(given_type))
    column, target = pa.array([number, None], given_type), wanted
    if nested == "l":
        column, target = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), column), pa.list_(wanted)
    elif nested == "s":
        column, target = pa.StructArray.from_arrays([column], ["x"]), pa.struct([("x", wanted)])
    elif nested == "m":
        keys = pa.array(["a", "b"])
        column = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), keys, column)
        target = pa.map_(pa.string(), wanted)
    expected = held(number, wanted)
    if expected is None:
        with pytest.raises(pa.ArrowException):
            cast_column(column, target)
    else:
        found = cast_column(column, target)
        assert found.type.equals(target)
        flat = {"l": "values", "m": "items"}
        values = found.field("x") if nested == "s" else getattr(found, flat[nested]) if nested else found
        assert values.to_pylist() == [expected, None]


@given(given_type=decimal_types(), wanted=decimal_types(), data=st.data(), texts=st.booleans())
def test_json_keeps_the_number_or_refuses_it(given_type, wanted, data, texts):
    """Good rows by Arrow's parser, others one by one; a number's digits behind the scale are rounded."""
    numbers = data.draw(st.lists(numbers_of(given_type), min_size=1, max_size=3))
    quote = '"' if texts else ""
    lines = [f'{{"x":{quote}{number:f}{quote},"l":[{number:f}]}}'.encode() for number in numbers]
    decoder = create_decoder("json", {}, pa.struct([("x", wanted), ("l", pa.list_(wanted))]))
    decoded = decoder.decode(pa.array(lines, pa.binary()))
    for number, row in zip(numbers, decoded.column.to_pylist(), strict=True):
        rounded = number.quantize(Decimal(1).scaleb(-wanted.scale), "ROUND_HALF_UP", EXACT)
        expected = held(rounded, wanted)
        assert row == (None if expected is None else {"x": expected, "l": [expected]}), number


def test_avro_keeps_the_number_or_refuses_it():
    """A record's decimal in a column of another scale."""
    written = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": written}]}
    decoder = create_decoder("avro", {"schema": json.dumps(schema)}, pa.struct([("x", pa.decimal128(38, 38))]))
    records = []
    for number in (0, 409):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, {"x": Decimal(number)})
        records.append(out.getvalue())
    assert decoder.decode(pa.array(records, pa.binary())).column.to_pylist() == [{"x": Decimal(0)}, None]


@given(text=st.from_regex(r"-?[0-9]{1,38}(\.[0-9]{1,10})?", fullmatch=True), wanted=decimal_types())
def test_texts_keep_the_number_or_are_refused(text, wanted):
    expected = held(Decimal(text), wanted)
    try:
        found = cast_column(pa.array([text]), wanted).to_pylist()
    except pa.ArrowException:
        # More digits than Arrow's parser takes are refused, too: a closer look follows then.
        assert expected is None or len(text) > 38
    else:
        assert found == [expected]
