"""Rows of a query as records to deliver: Spark's columns (key, value, topic, partition, headers), and a timestamp."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError, BadDataError
from penstock.serialization.ddl import shown_type
from penstock.serialization.formats import RecordEncoder
from penstock.sink import check_bytes_or_text, warn_about_left_out
from penstock_kafka.client import HEADERS_TYPE

__all__ = ["RecordColumns", "check_schema", "too_large"]

#: What the source gives in addition: of the record that was read, and not part of one that is written.
_OF_THE_SOURCE = ("offset", "timestamptype")
_USED = ("key", "value", "topic", "partition", "timestamp", "headers")


def check_schema(schema: pa.Schema, topic: str | None, encoded: frozenset[str]) -> None:
    """Raises :class:`BadConfigurationError` if rows of ``schema`` can't become records. Warns of columns that no record
    has.

    ``encoded`` names the columns (key, value) that a format encodes; the others must be bytes or text.
    """
    names: dict[str, pa.Field] = {}
    for field in schema:
        other = names.setdefault(field.name.lower(), field)
        if other is not field and field.name.lower() in _USED:
            raise BadConfigurationError(
                f"columns '{other.name}' and '{field.name}' have the same name in other letters: leave one out"
            )
    if "value" not in names:
        raise BadConfigurationError(
            f"a column 'value' is needed to write to Kafka; there are: {', '.join(schema.names)}"
        )
    if topic is None and "topic" not in names:
        raise BadConfigurationError("where to write? Set the option 'topic', or add a column 'topic' for each row")
    for part in ("key", "value"):
        field = names.get(part)
        if field is not None and part not in encoded:
            check_bytes_or_text(field, f"{part}.format")
    _must_be(names, "topic", lambda t: pa.types.is_string(t) or pa.types.is_large_string(t), "string")
    _must_be(names, "partition", pa.types.is_int32, "int")
    _must_be(names, "timestamp", pa.types.is_timestamp, "timestamp")
    _must_be(names, "headers", _are_headers, "array<struct<key:string,value:binary>>")
    left_out = [field for name, field in names.items() if name not in (*_USED, *_OF_THE_SOURCE)]
    warn_about_left_out("Kafka", left_out, f"A record has {', '.join(_USED)}")


def _must_be(names: Mapping[str, pa.Field], name: str, fits: Callable[[Any], bool], wanted: str) -> None:
    field = names.get(name)
    if field is not None and not fits(field.type):
        raise BadConfigurationError(f"column '{name}' is of type {shown_type(field.type)}: it must be {wanted}")


def _are_headers(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    fields = [kind.value_type.field(i) for i in range(kind.value_type.num_fields)]
    return len(fields) == 2 and pa.types.is_string(fields[0].type) and pa.types.is_binary(fields[1].type)


class RecordColumns:
    """Makes batches of ``DELIVERY_SCHEMA`` columns out of rows. Task, single thread."""

    def __init__(self, topic: str | None, encoders: Mapping[str, RecordEncoder]) -> None:
        self._topic = topic
        self._encoders = encoders

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Other columns than those that make a record are dropped. Raises BadDataError for a row that has no topic."""
        given = {name.lower(): batch.column(i) for i, name in enumerate(batch.schema.names) if name.lower() in _USED}
        columns = {"topic": self._topics(given.pop("topic", None), batch.num_rows)}
        for name, column in given.items():
            columns[name] = self._column(name, column)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def without_topic(self, batch: pa.RecordBatch) -> dict[int, str]:
        """Returns which rows name no topic, by their number, each with the reason."""
        name = next((name for name in batch.schema.names if name.lower() == "topic"), None)
        if self._topic is not None or name is None:
            return {}
        return dict.fromkeys(pc.indices_nonzero(batch.column(name).is_null()).to_pylist(), "it has no topic")

    def letter_fields(self, batch: pa.RecordBatch) -> dict[str, Any]:
        """Returns what the letters of rows that are refused say: the record as it was to be, unless a format encodes
        its key or its value, in which case the row is kept.
        """
        given = {name.lower(): batch.column(i) for i, name in enumerate(batch.schema.names)}
        fields: dict[str, Any] = {"source": given.get("topic") if self._topic is None else self._topic}
        if not self._encoders:
            fields |= {part: given[part].cast(pa.binary()) for part in ("key", "value") if part in given}
        if "headers" in given:
            fields["headers"] = given["headers"].cast(HEADERS_TYPE)
        return {**fields, "timestamp": given.get("timestamp")}

    def _topics(self, given: pa.Array | None, rows: int) -> pa.Array:
        if self._topic is not None:
            return pa.repeat(pa.scalar(self._topic, pa.string()), rows)
        if given is None or given.null_count:
            row = 0 if given is None else pc.index(given.is_null(), True).as_py()
            raise BadDataError(
                f"row {row} of a batch has no topic (it is null): set the option 'topic', or leave such rows out"
            )
        return given.cast(pa.string())

    def _column(self, name: str, column: pa.Array) -> pa.Array:
        if name in self._encoders:
            return self._encoders[name].encode(column)
        if name == "timestamp":
            # Kafka counts milliseconds: what is finer is cut off.
            return column.cast(pa.timestamp("ms", tz="UTC"), safe=False)
        return column.cast(HEADERS_TYPE) if name == "headers" else column


def too_large(records: pa.RecordBatch, most_bytes: int) -> dict[int, str]:
    """Returns which records have more bytes than the client takes, by their number, each with the reason."""
    sizes = pa.repeat(pa.scalar(1, pa.int64()), records.num_rows)
    for part in ("key", "value"):
        if part in records.schema.names:
            lengths = pc.binary_length(records.column(part).cast(pa.binary()))
            sizes = pc.add(sizes, pc.fill_null(lengths, 0).cast(pa.int64()))
    if "headers" in records.schema.names:
        sizes = pc.add(sizes, _header_bytes(records.column("headers")))
    return {
        row: f"a record of {sizes[row].as_py()} bytes is larger than message.max.bytes, {most_bytes}"
        for row in pc.indices_nonzero(pc.greater(sizes, most_bytes)).to_pylist()
    }


def _header_bytes(headers: pa.Array) -> pa.Array:
    """Returns the bytes of each record's headers, with their lengths; those of their lengths are the most possible."""
    keys, values = headers.flatten().flatten()
    each = pc.add(pc.fill_null(pc.binary_length(keys), 0), pc.fill_null(pc.binary_length(values), 0))
    ends = pc.cumulative_sum(pc.add(each.cast(pa.int64()), 10))
    ends = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    counts = pc.fill_null(pc.list_value_length(headers), 0).cast(pa.int64())
    last = pc.cumulative_sum(counts)
    return pc.subtract(ends.take(last), ends.take(pc.subtract(last, counts)))
