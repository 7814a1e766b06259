"""Rows of a table, and the records that Debezium writes of them: facts of its documentation, written down again."""

from __future__ import annotations

import base64
import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

__all__ = [
    "CHANGES",
    "COLUMNS",
    "EXAMPLE",
    "PRECISIONS",
    "ROWS",
    "SOURCE",
    "as_read",
    "avro_schema",
    "compact",
    "connect_schema",
    "envelope",
    "unscaled",
    "written",
]

#: A row of the table, or none.
Row = dict[str, Any] | None
UTC = timezone.utc
COLUMNS = (
    "id long, name string, is_open boolean, ratio double, day date, at timestamp_ntz, seen timestamp, "
    "price decimal(10,2), free decimal(20,4), data binary, tags array<string>, days array<date>"
)
_EPOCH = datetime(1970, 1, 1)
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "name": st.none()
        | st.text(st.characters(codec="utf-8"), max_size=6)
        | st.sampled_from(['"source":{', "}{", "source"]),
        "is_open": st.none() | st.booleans(),
        "ratio": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "day": st.none() | st.dates(date(1, 1, 1), date(9999, 12, 31)),
        "at": st.none() | TIMES,
        "seen": st.none() | TIMES.map(lambda at: at.replace(tzinfo=UTC)),
        "price": st.none() | st.decimals(-(10**8) + 1, 10**8 - 1, places=2),
        "free": st.none() | st.integers(0, 4).flatmap(lambda places: st.decimals(-(10**9), 10**9, places=places)),
        "data": st.none() | st.binary(max_size=6),
        "tags": st.none() | st.lists(st.none() | TEXTS, max_size=3),
        "days": st.none() | st.lists(st.dates(date(1900, 1, 1), date(2100, 1, 1)), max_size=3),
    }
)
_CONNECT = "org.apache.kafka.connect.data."
#: By Debezium's time.precision.mode: the names of dates and timestamps, and a unit.
PRECISIONS = {
    "milliseconds": ("io.debezium.time.Date", "io.debezium.time.Timestamp", "ms"),
    "connect": (f"{_CONNECT}Date", f"{_CONNECT}Timestamp", "ms"),
    "microseconds": ("io.debezium.time.Date", "io.debezium.time.MicroTimestamp", "us"),
    "nanoseconds": ("io.debezium.time.Date", "io.debezium.time.NanoTimestamp", "ns"),
    "isostring": ("io.debezium.time.IsoDate", "io.debezium.time.IsoTimestamp", None),
}
SOURCE = {
    "version": "3.2.0.Final",
    "connector": "postgresql",
    "name": "shop",
    "ts_ms": 1_700_000_000_123,
    "snapshot": "false",
    "db": "orders",
    "sequence": '["24023119","24023128"]',
    "ts_us": 1_700_000_000_123_456,
    "ts_ns": 1_700_000_000_123_456_000,
    "schema": "public",
    "table": "orders",
    "txId": 555,
    "lsn": 24023128,
    "xmin": None,
}


def compact(value: Any) -> bytes:
    """Returns a value as the converter to JSON writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def as_read(row: Row, precision: str = "microseconds") -> Row:
    """Returns the row as it comes back: times lose what the mode drops."""
    if row is None or precision not in ("milliseconds", "connect"):
        return row
    return {**row, "at": row["at"] and row["at"].replace(microsecond=row["at"].microsecond // 1000 * 1000)}


def unscaled(value: Decimal, scale: int) -> bytes:
    """Returns an unscaled decimal as Java's BigInteger gives it: the shortest two's complement."""
    number = int(value.scaleb(scale))
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def written(
    row: Row,
    precision: str = "microseconds",
    decimals: str = "precise",
    binary: str = "base64",
    *,
    in_json: bool = True,
) -> Row:
    """Returns the values of a row as a connector with these settings writes them."""
    if row is None:
        return None
    _, _, unit = PRECISIONS[precision]
    as_bytes: Any = (lambda data: base64.b64encode(data).decode()) if in_json else bytes

    def day(value: Any) -> Any:
        return f"{value.isoformat()}Z" if unit is None else (value - date(1970, 1, 1)).days

    def at(value: Any) -> Any:
        micros = (value - _EPOCH) // timedelta(microseconds=1)
        return (
            f"{value.isoformat()}Z" if unit is None else {"ms": micros // 1000, "us": micros, "ns": micros * 1000}[unit]
        )

    def price(value: Any) -> Any:
        if decimals == "precise":
            return as_bytes(unscaled(value, 2))
        return format(value, "f") if decimals == "string" else float(value)

    def free(value: Any) -> Any:
        if decimals != "precise":
            return price(value)
        scale = max(0, -value.as_tuple().exponent)
        return {"scale": scale, "value": as_bytes(unscaled(value, scale))}

    def data(value: Any) -> Any:
        if binary == "hex":
            return value.hex()
        return base64.urlsafe_b64encode(value).decode() if binary == "base64-url-safe" else as_bytes(value)

    def seen(value: Any) -> Any:
        return value.isoformat().replace("+00:00", "Z")

    def days(value: Any) -> Any:
        return [day(one) for one in value]

    changed = {"day": day, "at": at, "seen": seen, "price": price, "free": free, "data": data, "days": days}
    return {
        name: value if value is None or name not in changed else changed[name](value) for name, value in row.items()
    }


def envelope(op: str, before: Row, after: Row, **more: Any) -> dict[str, Any]:
    """Returns an envelope of rows as they are written."""
    return {
        "before": before,
        "after": after,
        "source": SOURCE,
        "transaction": None,
        "op": op,
        "ts_ms": 1_700_000_000_500,
        **more,
    }


def _field(name: str, type_: Any, meaning: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": type_, "optional": True, **({"name": meaning} if meaning else {}), **more, "field": name}


def connect_schema(
    precision: str = "microseconds", decimals: str = "precise", binary: str = "base64"
) -> dict[str, Any]:
    """Returns the schema that Connect's converter to JSON puts in front of such an envelope."""
    day, at, unit = PRECISIONS[precision]
    of_days, of_times = ("string", "string") if unit is None else ("int32", "int64")
    kind = {"string": "string", "double": "double"}.get(decimals)
    scaled = {"fields": [_field("scale", "int32"), _field("value", "bytes")]}
    decimal = {"version": 1, "parameters": {"scale": "2", "connect.decimal.precision": "10"}}
    columns = [
        _field("id", "int64"),
        _field("name", "string"),
        _field("is_open", "boolean"),
        _field("ratio", "double"),
        _field("day", of_days, day),
        _field("at", of_times, at),
        _field("seen", "string", "io.debezium.time.ZonedTimestamp"),
        _field("price", kind) if kind else _field("price", "bytes", f"{_CONNECT}Decimal", **decimal),
        _field("free", kind) if kind else _field("free", "struct", "io.debezium.data.VariableScaleDecimal", **scaled),
        _field("data", "bytes" if binary == "base64" else "string"),
        _field("tags", "array", items={"type": "string", "optional": True}),
        _field("days", "array", items={"type": of_days, "optional": True, "name": day}),
    ]
    kinds = {str: "string", int: "int64", type(None): "int64"}
    block = [_field("id", "string"), _field("total_order", "int64"), _field("data_collection_order", "int64")]
    return {
        "type": "struct",
        "fields": [
            _field("before", "struct", "shop.public.orders.Value", fields=columns),
            _field("after", "struct", "shop.public.orders.Value", fields=columns),
            _field("source", "struct", "source", fields=[_field(n, kinds[type(v)]) for n, v in SOURCE.items()]),
            _field("transaction", "struct", "event.block", fields=block),
            _field("op", "string"),
            _field("ts_ms", "int64"),
        ],
        "optional": False,
        "name": "shop.public.orders.Envelope",
    }


def _record(name: str, fields: list[Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def avro_schema(precision: str = "microseconds", decimals: str = "precise") -> dict[str, Any]:
    """Returns the schema that Confluent's converter registers for such an envelope."""
    day, at, unit = PRECISIONS[precision]

    def named(type_: str, meaning: str, **more: Any) -> dict[str, Any]:
        return {"type": type_, "connect.version": 1, "connect.name": meaning, **more}

    def optional(name: str, type_: Any) -> dict[str, Any]:
        return {"name": name, "type": ["null", type_], "default": None}

    of_day = named("string" if unit is None else "int", day)
    decimal = {"connect.parameters": {"scale": "2", "connect.decimal.precision": "10"}, "logicalType": "decimal"}
    kind = {"string": "string", "double": "double"}.get(decimals)
    variable = {
        **named("record", "io.debezium.data.VariableScaleDecimal"),
        "name": "VariableScaleDecimal",
        "namespace": "io.debezium.data",
        "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    }
    price = named("bytes", f"{_CONNECT}Decimal", scale=2, precision=64, **decimal)
    columns = [
        {"name": "id", "type": "long"},
        optional("name", "string"),
        optional("is_open", "boolean"),
        optional("ratio", "double"),
        optional("day", of_day),
        optional("at", named("string" if unit is None else "long", at)),
        optional("seen", named("string", "io.debezium.time.ZonedTimestamp")),
        optional("price", kind or price),
        optional("free", kind or variable),
        optional("data", "bytes"),
        optional("tags", {"type": "array", "items": ["null", "string"]}),
        optional("days", {"type": "array", "items": ["null", of_day]}),
    ]
    row = {"type": "record", "name": "Value", "fields": columns, "connect.name": "shop.public.orders.Value"}
    kinds = {str: "string", int: "long"}
    source = [optional(n, kinds.get(type(v), "long")) for n, v in SOURCE.items()]
    block = [{"name": "id", "type": "string"}, {"name": "total_order", "type": "long"}]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.orders",
        "fields": [
            optional("before", row),
            optional("after", "Value"),
            {
                "name": "source",
                "type": {"type": "record", "name": "Source", "namespace": "io.debezium", "fields": source},
            },
            optional("transaction", {"type": "record", "name": "block", "namespace": "event", "fields": block}),
            {"name": "op", "type": "string"},
            optional("ts_ms", "long"),
        ],
    }


CHANGES = st.one_of(
    st.tuples(st.sampled_from("cr"), st.none(), ROWS),
    st.tuples(st.just("u"), st.none() | ROWS, ROWS),
    st.tuples(st.just("d"), ROWS, st.none()),
    st.tuples(st.just("t"), st.none(), st.none()),
)
EXAMPLE = {
    "id": 7,
    "name": "Ann",
    "is_open": True,
    "ratio": 0.5,
    "day": date(2024, 2, 29),
    "at": datetime(2018, 6, 20, 15, 13, 16, 945104),
    "seen": datetime(2018, 6, 20, 13, 37, 3, tzinfo=UTC),
    "price": Decimal("-12.34"),
    "free": Decimal("0.482"),
    "data": b"\x01\xff",
    "tags": ["a", None],
    "days": [date(1969, 12, 31)],
}
