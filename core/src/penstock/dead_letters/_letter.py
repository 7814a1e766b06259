"""What a dead letter holds: one type, whichever connector marks a record as bad or refuses a row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = [
    "CONNECT_EXCEPTION_CLASS",
    "CONNECT_HEADERS",
    "HEADERS_TYPE",
    "LETTER_COLUMN",
    "LETTER_DDL",
    "LETTER_SCHEMA",
    "LETTER_TYPE",
    "TIMESTAMP_HEADER",
    "is_letter_type",
    "letters",
]

#: Headers of a record, in order; a key may come more than once.
HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))

#: Why it is a dead letter, who says so, where it comes from, and what it was.
#:
#: ``stage`` is ``source`` (a record could not be decoded) or ``sink`` (a row could not be written). ``source`` is the
#: topic, stream or file of the record; with stage ``sink`` the table, topic or path that the row was for. ``partition``
#: (a segment of Pravega's) and ``offset`` (a byte of a file) are where the record is in it; null with stage ``sink``.
#: ``timestamp`` is the record's own. ``key``, ``value`` and ``headers`` are its bytes as they were; with stage ``sink``
#: ``value`` is the row as JSON, unless the row has a key and a value as bytes itself.
LETTER_SCHEMA = pa.schema(
    [
        pa.field("error", pa.string()),
        pa.field("stage", pa.string()),
        pa.field("connector", pa.string()),
        pa.field("source", pa.string()),
        pa.field("partition", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
    ]
)

#: A row's letter; null in the row of a good record.
LETTER_TYPE = pa.struct(list(LETTER_SCHEMA))

#: That type as Spark writes it, for a schema of your own.
LETTER_DDL = (
    "struct<error: string, stage: string, connector: string, source: string, partition: bigint, offset: bigint, "
    "timestamp: timestamp, key: binary, value: binary, headers: array<struct<key: string, value: binary>>>"
)

#: The name of the column with letters, unless ``badRecordColumn`` says otherwise.
LETTER_COLUMN = "_bad_record"

#: Names of Kafka Connect's headers, each with the field of a letter that it holds, as text in UTF-8. In addition,
#: :data:`CONNECT_EXCEPTION_CLASS` holds the name of the error's class.
CONNECT_HEADERS = {
    "__connect.errors.topic": "source",
    "__connect.errors.partition": "partition",
    "__connect.errors.offset": "offset",
    "__connect.errors.connector.name": "connector",
    "__connect.errors.stage": "stage",
    "__connect.errors.exception.message": "error",
}
CONNECT_EXCEPTION_CLASS = "__connect.errors.exception.class.name"
#: Penstock's own header: the record's timestamp, in milliseconds since 1970, as text. The letter itself has the time at
#: which it is written. With that of an old record, the topic's retention could delete it before anyone has seen it.
TIMESTAMP_HEADER = "penstock.errors.timestamp"


def is_letter_type(kind: pa.DataType) -> bool:
    """Returns whether ``kind`` is that of letters. Engines name the elements of lists in their own way."""
    if not pa.types.is_struct(kind) or kind.num_fields != len(LETTER_SCHEMA):
        return False
    fields = [kind.field(index) for index in range(kind.num_fields)]
    return all(
        own.name == field.name and _plain(own.type) == _plain(field.type)
        for own, field in zip(LETTER_SCHEMA, fields, strict=True)
    )


def _plain(kind: pa.DataType) -> Any:
    """Returns what two types are compared by: without the names of elements, and without who may be null."""
    if pa.types.is_list(kind):
        return ["list", _plain(kind.value_type)]
    if pa.types.is_struct(kind):
        return [(kind.field(i).name, _plain(kind.field(i).type)) for i in range(kind.num_fields)]
    return kind


def letters(errors: pa.Array, **fields: Any) -> pa.StructArray:
    """Returns a letter for each of ``errors`` that is not null, and null for the others.

    ``fields`` are those of :data:`LETTER_SCHEMA`: an array each, or one value for all; what is not given is null.
    """
    columns = []
    for field in LETTER_SCHEMA:
        given = errors if field.name == "error" else fields.pop(field.name, None)
        if not isinstance(given, pa.Array):
            given = pa.repeat(pa.scalar(given, field.type), len(errors))
        columns.append(given if given.type == field.type else given.cast(field.type))
    if fields:
        raise TypeError(f"a letter has no field {', '.join(fields)}")
    mask = errors.is_null() if errors.null_count else None
    return pa.StructArray.from_arrays(columns, fields=list(LETTER_SCHEMA), mask=mask)
