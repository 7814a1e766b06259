"""Decimals of any digits and scale out of files: a number that does not fit is reported, and never another number."""

from __future__ import annotations

import io
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import BadDataError
from suite.drawn_decimals import EXACT, decimal_types, numbers_of


def as_parquet(number, type_):
    out = io.BytesIO()
    pq.write_table(pa.table({"x": pa.array([number], type_), "l": pa.array([[number]], pa.list_(type_))}), out)
    return out.getvalue()


def as_avro(number, type_):
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
    fields = [{"name": "x", "type": decimal}, {"name": "l", "type": {"type": "array", "items": decimal}}]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, [{"x": number, "l": [number]}])
    return out.getvalue()


WAYS = {
    "csv": lambda number, _: f"{number:f}\n".encode(),
    "json": lambda number, _: f'{{"x":{number:f},"l":[{number:f}]}}\n'.encode(),
    "parquet": as_parquet,
    "avro": as_avro,
}


@pytest.mark.parametrize("way", WAYS)
@given(st.data())
@example(None)
@settings(max_examples=60)
def test_a_number_stays_or_is_refused(tmp_path, source_harness, way, data):
    given_type, wanted, number = pa.decimal128(38, 0), pa.decimal128(38, 38), Decimal(409)
    if data is not None:
        given_type, wanted = data.draw(decimal_types()), data.draw(decimal_types())
        number = data.draw(numbers_of(given_type))
    place = tmp_path / f"{len(list(tmp_path.iterdir()))}"
    place.mkdir()
    (place / f"a.{way}").write_bytes(WAYS[way](number, given_type))
    schema = [("x", wanted)] if way == "csv" else [("x", wanted), ("l", pa.list_(wanted))]

    # Texts are rounded, as in Spark; of numbers with a type, no digit may be lost.
    expected = number.quantize(Decimal(1).scaleb(-wanted.scale), "ROUND_HALF_UP", EXACT)
    fits = expected.scaleb(wanted.scale, EXACT).copy_abs() < 10**wanted.precision
    options = {"format": way, "mode": "FAILFAST"} if way in ("csv", "json") else {"format": way}
    if fits and (way in ("csv", "json") or expected == number):
        rows = source_harness.rows(place, schema, **options)
        assert rows == [(expected,)] if way == "csv" else rows == [(expected, [expected])]
    else:
        with pytest.raises(BadDataError):
            source_harness.rows(place, schema, **options)
