"""What a letter looks like where it is sent: as columns, as a record with headers, or as one text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from penstock.dead_letters._letter import (
    CONNECT_EXCEPTION_CLASS,
    CONNECT_HEADERS,
    HEADERS_TYPE,
    LETTER_DDL,
    LETTER_SCHEMA,
    TIMESTAMP_HEADER,
)
from penstock.serialization.values import JsonWriter, ValueText, why_not_json

__all__ = ["AS_COLUMNS", "AS_JSON", "AS_RECORDS", "LetterForm", "LetterReturn", "rows_as_json"]

_CONNECTS = "__connect.errors."
_SQL_TYPES = {"string": "string", "int64": "bigint"}
_EXCEPTION_CLASS = "penstock.errors.BadDataError"


@dataclass(frozen=True)
class LetterForm:
    """How a connector takes letters. Picklable.

    ``rows`` makes rows of ``schema`` out of a batch of :data:`LETTER_SCHEMA`. ``fields`` has an expression of Spark's
    SQL for each field of a letter, over the columns with which the connector's source reads it again; without any, it
    reads the columns of ``schema``. ``defaults`` are values of the
    connector's options that suit letters; each holds unless the user sets the option, or one of those after it.
    ``address`` names the options that say where the system is: with one of them set, letters go to another system than
    the rows, and nothing of how that is reached holds for them. ``place`` names the option that says where in it
    letters go.
    """

    schema: pa.Schema
    rows: Callable[[pa.RecordBatch], pa.RecordBatch]
    fields: Mapping[str, str] = field(default_factory=dict)
    address: tuple[str, ...] = ()
    place: str = ""
    defaults: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)


# 1. Columns, for files and tables.


_COLUMNS = pa.schema([pa.field("id", pa.string()), *LETTER_SCHEMA])


def _columns(letters: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_ids(letters), *letters.columns], schema=_COLUMNS)


def _ids(letters: pa.RecordBatch) -> pa.Array:
    """Returns what tells a letter from the others of its source, the same in a replay: the place of the record; of a
    row that was refused a hash of what it holds.
    """
    offset = letters.column("offset").cast(pa.string())
    partition = letters.column("partition").cast(pa.string())
    places = pc.coalesce(pc.binary_join_element_wise(partition, offset, ":"), offset)
    if not places.null_count:
        return places
    hashes: list[str | None] = [None] * len(places)
    keys, values = letters.column("key"), letters.column("value")
    for row in pc.indices_nonzero(places.is_null()).to_pylist():  # rows that were refused: few
        key, value = keys[row].as_py(), values[row].as_py()
        head = b"" if key is None else b"%d:%s" % (len(key), key)
        hashes[row] = hashlib.sha256(head + b"," + (value or b"")).hexdigest()
    return pc.coalesce(places, pa.array(hashes, pa.string()))


#: A column for each field, after one that tells letters of a source from each other.
AS_COLUMNS = LetterForm(_COLUMNS, _columns)


# 2. Records, for Kafka: the key and the value as they were, and headers that say why.


_RECORDS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
    ]
)


def _records(letters: pa.RecordBatch) -> pa.RecordBatch:
    columns = [letters.column("key"), letters.column("value"), _with_reasons(letters)]
    return pa.RecordBatch.from_arrays(columns, schema=_RECORDS)


def _with_reasons(letters: pa.RecordBatch) -> pa.Array:
    """Returns the record's own headers, then Kafka Connect's, then Penstock's. What a letter lacks has no header."""
    own = letters.column("headers")
    rows = pa.array(range(letters.num_rows), pa.int64())
    owners = [pc.list_parent_indices(own).cast(pa.int64())]
    items = [own.flatten()]
    values = {name: letters.column(source).cast(pa.string()) for name, source in CONNECT_HEADERS.items()}
    values[CONNECT_EXCEPTION_CLASS] = pa.repeat(pa.scalar(_EXCEPTION_CLASS, pa.string()), len(rows))
    milliseconds = letters.column("timestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False)
    values[TIMESTAMP_HEADER] = milliseconds.cast(pa.int64()).cast(pa.string())
    for name, texts in values.items():
        there = texts.is_valid()
        owners.append(rows.filter(there))
        texts = texts.filter(there).cast(pa.binary())
        keys = pa.repeat(pa.scalar(name, pa.string()), len(texts))
        items.append(pa.StructArray.from_arrays([keys, texts], fields=list(HEADERS_TYPE.value_type)))
    owner = pa.concat_arrays(owners)
    # Sorted by letter, and within one in the order in which they are here.
    numbered = pa.table({"owner": owner, "number": pa.array(range(len(owner)), pa.int64())})
    order = pc.sort_indices(numbered, [("owner", "ascending"), ("number", "ascending")])
    counts = pc.fill_null(pc.list_value_length(own), 0).cast(pa.int64())
    for texts in values.values():
        counts = pc.add(counts, texts.is_valid().cast(pa.int64()))
    ends = pc.cumulative_sum(counts).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, pa.concat_arrays(items).take(order), type=HEADERS_TYPE)


def _of_records() -> dict[str, str]:
    """Returns the inverse. Of several headers of one name the last counts: Connect appends its own."""
    fields = {"key": "key", "value": "value"}
    for header, name in CONNECT_HEADERS.items():
        kind = _SQL_TYPES[str(LETTER_SCHEMA.field(name).type)]
        fields[name] = f"try_cast({_header(header)} as {kind})"
    # Kafka Connect's own letters have the record's.
    fields["timestamp"] = f"coalesce(timestamp_millis(try_cast({_header(TIMESTAMP_HEADER)} as bigint)), timestamp)"
    fields["headers"] = (
        f"filter(headers, one -> not startswith(one.key, '{_CONNECTS}') and one.key <> '{TIMESTAMP_HEADER}')"
    )
    return fields


def _header(name: str) -> str:
    return f"cast(try_element_at(filter(headers, one -> one.key = '{name}'), -1).value as string)"


#: The record as it was, with headers that say why.
AS_RECORDS = LetterForm(_RECORDS, _records, _of_records())


# 3. One JSON object, for systems whose events are bytes alone.


_EVENTS = pa.schema([pa.field("value", pa.binary()), pa.field("routing_key", pa.string())])


def _events(letters: pa.RecordBatch) -> pa.RecordBatch:
    """Letters of one partition of a source have the same key, and so keep their order."""
    partition = pc.fill_null(letters.column("partition").cast(pa.string()), "")
    keys = pc.binary_join_element_wise(pc.fill_null(letters.column("source"), ""), partition, ":")
    texts = JsonWriter(ValueText(), ignore_nulls=True).objects(letters.schema.names, letters.columns)
    return pa.RecordBatch.from_arrays([texts.cast(pa.binary()), keys], schema=_EVENTS)


def _of_events() -> dict[str, str]:
    parsed = f"from_json(cast(value as string), '{LETTER_DDL}')"
    return {name: f"{parsed}.{name}" for name in LETTER_SCHEMA.names}


#: A JSON object of the fields, and a routing key.
AS_JSON = LetterForm(_EVENTS, _events, _of_events())


@dataclass(frozen=True)
class LetterReturn:
    """How a connector's sink takes records that were dead letters. Picklable.

    ``columns`` has an expression of Spark's SQL for each of the sink's columns, over the fields of a letter. ``target``
    is the sink's option that says where they go: to the letter's ``source`` if ``from_source``, and otherwise to a
    place that the user names. ``options`` are others that are needed.
    """

    columns: Mapping[str, str]
    target: str
    from_source: bool = True
    options: Mapping[str, str] = field(default_factory=dict)


def rows_as_json(rows: pa.RecordBatch) -> pa.Array:
    """Returns each row as a JSON object (binary): bytes in base 64, times in ISO 8601. What JSON has no form for is
    written as text.
    """
    columns = [
        pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
        if why_not_json(column.type)
        else column
        for column in rows.columns
    ]
    return JsonWriter(ValueText(), ignore_nulls=False).objects(rows.schema.names, columns).cast(pa.binary())
