"""Every place where bytes from outside become objects: what is fuzzed, and what tests try.

A test compares it with the source: a module that takes bytes apart is read by a target, or is in ``TRUSTED`` with the
reason why its bytes are not from outside; a serializer of stored forms is in ``SERIALIZERS``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka.errors import KafkaConnectionError

from fuzz.decoders import cassandra, files, kafka, pravega, records, stored
from fuzz.target import Target
from penstock.errors import PenstockError
from penstock.serialization import SimpleVersionedSerializer
from penstock.sink._contracts import NOTHING_SERIALIZER
from penstock.sink._union import _FORMS
from penstock.sink._write_ahead import _SEGMENTS
from penstock.source.log import _serializers as log_forms
from penstock_cassandra.source import _split as cassandra_forms
from penstock_filesystem.sink import _committable as file_committables
from penstock_filesystem.source import _split as file_forms
from penstock_filesystem.source._schema_location import SCHEMA_SERIALIZER
from penstock_kafka.sink import _committable as kafka_committables
from penstock_pravega.client import BrokenEvents, Refused
from penstock_pravega.sink import _committable as pravega_committables
from penstock_pravega.source import _split as pravega_forms

__all__ = ["SERIALIZERS", "TARGETS", "TRUSTED"]

_FILES, _KAFKA = "connectors/filesystem/tests/golden/", "connectors/kafka/tests/golden/"
_CASSANDRA, _PRAVEGA = "connectors/cassandra/tests/golden/", "connectors/pravega/tests/golden/"


def _first(version: int, *names: str) -> Any:
    return lambda: [bytes([version]) + line for data in stored.golden(*names) for line in stored.forms(data)]


def _of_each_version(name: str) -> Any:
    return lambda: [form for version in (1, 2) for form in _first(version, name.format(version))()]


def _versions(*names: str) -> Any:
    return lambda: stored.stored(names)


#: Name → the serializer, and golden files of its forms.
SERIALIZERS: dict[str, tuple[SimpleVersionedSerializer[Any], Any]] = {
    "log-state": (log_forms.STATE_SERIALIZER, _first(1, "core/tests/golden/log-state-v1.json")),
    "log-split": (log_forms.SPLIT_SERIALIZER, lambda: [b'\x01["topic",3,5,9]', b'\x02["topic",3,5,9,"id"]']),
    "segment": (
        _SEGMENTS,
        lambda: [b'\x01{"batch_id":1,"writer_index":0,"attempt_id":"a","number":2,"rows":3,"size_bytes":4}'],
    ),
    "owned": (_FORMS, lambda: [b'\x01{"data":"e30=","member":"a","v":1}']),
    "nothing": (NOTHING_SERIALIZER, lambda: [bytes([1]) + NOTHING_SERIALIZER.serialize(None)]),
    "file-state": (
        file_forms.STATE_SERIALIZER,
        _versions(_FILES + "enumerator-v1.json", _FILES + "enumerator-v2.json"),
    ),
    "file-split": (file_forms.SPLIT_SERIALIZER, _first(1, _FILES + "split-v1.bin")),
    "file-schema": (SCHEMA_SERIALIZER, _first(1, _FILES + "schema-v1.json")),
    "file-chunk": (file_committables.WRITER_STATE_SERIALIZER, _first(1, _FILES + "state-v1.bin")),
    "file-part": (file_committables.COMMITTABLE_SERIALIZER, _first(1, _FILES + "committable-v1.bin")),
    "kafka-transaction": (
        kafka_committables.COMMITTABLE_SERIALIZER,
        _versions(*(f"{_KAFKA}committable-v{version}.json" for version in (1, 2, 3))),
    ),
    "cassandra-state": (cassandra_forms.STATE_SERIALIZER, _of_each_version(_CASSANDRA + "state-v{}.json")),
    "cassandra-split": (cassandra_forms.SPLIT_SERIALIZER, _of_each_version(_CASSANDRA + "split-v{}.json")),
    "pravega-state": (pravega_forms.STATE_SERIALIZER, _versions(_PRAVEGA + "state-v1.json")),
    "pravega-split": (pravega_forms.SPLIT_SERIALIZER, _versions(_PRAVEGA + "split-v1.json")),
    "pravega-transaction": (
        pravega_committables.COMMITTABLE_SERIALIZER,
        _versions(*(f"{_PRAVEGA}committable-v{version}.json" for version in (1, 2))),
    ),
}


def _file(name: str, seeds: Any, schema: Any, reads: str, *, refused: Any = tuple, **options: str) -> Target:
    reader = files.file_reader(name, schema, **options)
    label = "files." + "-".join([name, *options.values()]).replace(".", "-")
    modules = ("penstock_filesystem.source._reader", *reads.split()) if reads else ()
    inputs = records.odd_json if name == "json" else tuple
    return Target(label, reader, seeds, modules, where=f"part.{name}", inputs=inputs, refused=refused)


def _refused_forms(one: SimpleVersionedSerializer[Any]) -> Any:
    if one is NOTHING_SERIALIZER:
        return tuple  # whatever it is given is nothing
    return stored.no_states if one is file_forms.STATE_SERIALIZER else stored.no_forms


_FORMATS = "penstock_filesystem.formats."
_PROTOBUF = "penstock.serialization.formats._protobuf."
_ORC_MODULES = ("_chunks", "_columns", "_decimals", "_integers", "_layout", "_packed_runs", "_protobuf", "_reader")
#: Whatever JSON may hold beyond the standard.
_LOOSE = dict.fromkeys(
    (
        "allowComments",
        "allowUnquotedFieldNames",
        "allowNumericLeadingZeros",
        "allowBackslashEscapingAnyCharacter",
        "allowUnquotedControlChars",
    ),
    "true",
)
TARGETS = [
    Target(
        "kafka.batches",
        kafka.read_batches,
        kafka.batch_seeds,
        reads=(
            "penstock_kafka.client.codec._compression",
            "penstock_kafka.client.codec._decoder",
            "penstock_kafka.client.consumer._position",
        ),
        where="topic 'topic' partition 0 can't be read from offset",
        repair=kafka.repaired,
        inputs=kafka.batches_with_odd_headers,
        refused=kafka.refused_batches,
    ),
    Target(
        "kafka.old-messages",
        kafka.read_old_messages,
        kafka.old_message_seeds,
        reads=("penstock_kafka.client.codec._old_formats",),
        errors=(ValueError,),
        repair=kafka.repaired_messages,
        refused=kafka.refused_old_messages,
    ),
    Target(
        "kafka.fetch",
        kafka.read_fetch,
        kafka.fetch_seeds,
        reads=("penstock_kafka.client.consumer._fetch_protocol",),
        errors=(ValueError,),
        refused=kafka.refused_fetches,
    ),
    Target(
        "kafka.fetch-by-id",
        kafka.read_fetch_by_id,
        kafka.fetch_by_id_seeds,
        reads=("penstock_kafka.client.consumer._fetch_protocol",),
        errors=(ValueError,),
        refused=kafka.refused_fetches_by_id,
    ),
    Target(
        "kafka.answer",
        kafka.read_answer,
        kafka.answer_seeds,
        reads=("penstock_kafka.client.broker._connection",),
        errors=(KafkaConnectionError,),
        refused=kafka.refused_answers,
    ),
    Target(
        "kafka.token",
        kafka.read_token,
        kafka.token_seeds,
        reads=("penstock_kafka.client.login._oidc",),
        refused=kafka.refused_tokens,
    ),
    Target(
        "pravega.message",
        pravega.read_message,
        pravega.message_seeds,
        reads=("penstock_pravega.client._connection", "penstock_pravega.client._wire"),
        errors=(Refused, ConnectionError),
        refused=pravega.refused_messages,
    ),
    Target(
        "pravega.range",
        pravega.read_range,
        pravega.range_seeds,
        reads=("penstock_pravega.client._range_reader",),
        errors=(Refused, ConnectionError, PenstockError),
        refused=pravega.refused_ranges,
    ),
    Target(
        "pravega.events",
        pravega.read_events,
        pravega.event_seeds,
        reads=("penstock_pravega.client._events",),
        errors=(BrokenEvents,),
        refused=pravega.refused_events,
    ),
    Target(
        "pravega.watermark",
        pravega.read_watermark,
        pravega.watermark_seeds,
        reads=("penstock_pravega.client._watermarks",),
        errors=(ValueError,),
        refused=pravega.refused_watermarks,
    ),
    Target(
        "pravega.cut", pravega.read_cut, pravega.cut_seeds, ("penstock_pravega.client._cuts",), errors=(ValueError,)
    ),
    Target(
        "pravega.note",
        pravega.read_note,
        pravega.note_seeds,
        ("penstock_pravega.sink._transaction_log",),
        errors=(),
        inputs=pravega.odd_notes,
    ),
    Target(
        "pravega.keycloak",
        pravega.read_keycloak,
        pravega.keycloak_seeds,
        ("penstock_pravega.client._keycloak",),
        refused=pravega.refused_keycloak,
    ),
    Target(
        "cassandra.page",
        cassandra.read_page,
        cassandra.page_seeds,
        reads=(
            "penstock_cassandra.native._cells",
            "penstock_cassandra.types._decode",
            "penstock_cassandra.types._slow",
        ),
        refused=cassandra.refused_pages,
    ),
    Target(
        "cassandra.rows",
        cassandra.read_rows,
        cassandra.row_seeds,
        reads=("penstock_cassandra.client._client",),
        refused=cassandra.refused_rows,
    ),
    _file(
        "avro",
        files.avro_seeds,
        files.NESTED,
        f"{_FORMATS}avro._plain {_FORMATS}avro._reader",
        refused=files.refused_avro,
    ),
    _file(
        "parquet",
        files.parquet_seeds,
        files.NESTED,
        f"{_FORMATS}parquet._footer {_FORMATS}parquet._reader",
        refused=files.refused_parquet,
    ),
    _file(
        "orc",
        files.orc_seeds,
        files.NESTED,
        " ".join(f"{_FORMATS}orc.{one}" for one in _ORC_MODULES),
        refused=files.refused_orc,
    ),
    _file(
        "sequencefile",
        files.sequence_seeds,
        files.RAW_PAIRS,
        f"{_FORMATS}sequence._layout {_FORMATS}sequence._reader",
        refused=files.refused_sequences,
    ),
    _file("csv", files.csv_seeds, files.COLUMNS, _FORMATS + "csv._parser", badRecords="null"),
    _file("csv", files.csv_seeds, files.COLUMNS, "", badRecords="fail", multiLine="true"),
    _file("json", files.json_seeds, files.NESTED, _FORMATS + "json._reader", badRecords="null"),
    _file("json", files.json_seeds, files.COLUMNS, "", badRecords="fail"),
    Target(
        "files.json-loose",
        files.file_reader("json", files.NESTED, badRecords="null", **_LOOSE),
        files.json_seeds,
        ("penstock.serialization.values._json_loose",),
        where="part.json",
        inputs=records.odd_json,
    ),
    _file("text", files.text_seeds, files.TEXT, _FORMATS + "text._reader"),
    *(
        _file(f"text.{one}", partial(files.packed_seeds, one), files.TEXT, "")
        for one in ("gz", "bz2", "xz", "deflate", "lz4", "snappy")
    ),
    _file(
        "text.zst",
        partial(files.packed_seeds, "zst"),
        files.TEXT,
        f"{_FORMATS}_compression {_FORMATS}_input_file",
        refused=files.bombs,
    ),
    *(
        Target(f"files.schema-{name}", files.schema_reader(name), seeds, reads, inputs=stored.no_objects)
        for name, seeds, reads in (
            ("csv", files.csv_seeds, (_FORMATS + "csv._inference",)),
            ("json", files.json_seeds, (_FORMATS + "json._inference",)),
            ("avro", files.avro_seeds, ()),
            ("parquet", files.parquet_seeds, ()),
            ("orc", files.orc_seeds, ()),
        )
    ),
    Target(
        "files.notification",
        records.read_notification,
        records.notifications,
        ("penstock_filesystem.source.discovery._notifications",),
        inputs=lambda: [b"[" * 100_000, b"{}", b"1", b'{"Records": [{"eventName": 1}]}'],
    ),
    Target("records.avro", records.read_avro, records.avro_seeds, ("penstock.serialization.formats._avro_decoder",)),
    Target(
        "records.avro-registered",
        records.read_registered,
        records.registered_seeds,
        (
            "penstock.serialization.formats._framing",
            "penstock.serialization.formats._registered_decoder",
        ),
        refused=records.refused_registered,
    ),
    Target(
        "records.json",
        records.read_json,
        records.json_seeds,
        ("penstock.serialization.formats._json_decoder", "penstock.serialization.values._json_read"),
        inputs=records.odd_json,
    ),
    Target(
        "records.debezium",
        records.read_debezium,
        records.debezium_seeds,
        (
            "penstock.serialization.formats._debezium._connect",
            "penstock.serialization.formats._debezium._decoder",
            "penstock.serialization.formats._debezium._values",
        ),
        inputs=records.odd_json,
    ),
    Target(
        "records.debezium-avro",
        records.read_debezium_avro,
        records.debezium_avro_seeds,
        ("penstock.serialization.formats._debezium._avro",),
    ),
    Target(
        "records.protobuf",
        records.read_protobuf,
        records.protobuf_seeds,
        (f"{_PROTOBUF}_decoder", f"{_PROTOBUF}_columns"),
        inputs=records.odd_protobuf,
    ),
    Target(
        "records.protobuf-registered",
        records.read_protobuf_registered,
        records.protobuf_registered_seeds,
        (f"{_PROTOBUF}_evolution",),
    ),
    Target(
        "records.protobuf-schema",
        records.read_protobuf_schema,
        records.protobuf_schema_seeds,
        (f"{_PROTOBUF}_schema",),
        where="schema",
    ),
    Target("records.glue", records.read_glue, records.glue_seeds, (), refused=records.refused_glue),
    Target(
        "records.apicurio",
        records.read_apicurio,
        records.apicurio_seeds,
        ("penstock.serialization.formats._apicurio",),
        inputs=records.odd_answers,
    ),
    Target(
        "records.json-schema",
        records.read_json_schema,
        records.json_schema_seeds,
        ("penstock.serialization.formats._json_schema",),
        where="schema",
        inputs=records.odd_json_schemas,
    ),
    Target(
        "records.string", records.string_reader("utf-8"), files.text_seeds, ("penstock.serialization.formats._text",)
    ),
    Target("records.string-utf-16", records.string_reader("utf-16"), files.text_seeds, ()),
    Target(
        "records.schema",
        records.read_schema,
        records.schema_seeds,
        ("penstock.serialization.avro", "penstock.serialization.formats._avro"),
        where="Avro",
        refused=records.refused_schemas,
    ),
    Target(
        "stored.decision",
        stored.read_link,
        stored.link_seeds,
        ("penstock._commit._chain",),
        where="decisions/",
        refused=stored.no_objects,
    ),
    Target(
        "stored.offset",
        stored.read_offset,
        stored.offset_seeds,
        ("penstock.spark._offsets", "penstock.options._restarts"),
    ),
    Target(
        "stored.splits",
        stored.read_packed_splits,
        stored.packed_split_seeds,
        reads=(
            "penstock.serialization._malformed",
            "penstock.serialization._versioned",
            "penstock_filesystem.source._split",
        ),
        refused=stored.refused_splits,
    ),
    Target(
        "stored.inspect",
        stored.inspect,
        stored.log_seeds,
        ("penstock.cli._checkpoint",),
        inputs=stored.odd_logs,
        errors=(),
    ),
    Target(
        "stored.damage",
        stored.find_damage,
        lambda: [b'v1\n{"batchWatermarkMs":0}\n{"a":1}\n-', b'v1\n{"nextBatchWatermarkMs":0}'],
        ("penstock.checkpoint._damage",),
        errors=(),
    ),
    Target(
        "stored.progress",
        stored.read_progress,
        stored.progress_seeds,
        ("penstock.cli._dashboard", "penstock._monitoring._progress"),
    ),
    Target("stored.log", stored.read_log, stored.log_seeds, (), errors=(), inputs=stored.odd_logs),
    Target(
        "stored.place",
        stored.read_place,
        stored.place_seeds,
        ("penstock.checkpoint._identity",),
        refused=stored.no_objects,
    ),
    Target(
        "stored.metadata", stored.read_metadata, stored.metadata_seeds, (), where="metadata", refused=stored.no_objects
    ),
    Target(
        "stored.sink", stored.read_sink, stored.sink_seeds, ("penstock.checkpoint._stored",), refused=stored.no_objects
    ),
    Target(
        "stored.group",
        stored.read_group,
        stored.group_seeds,
        ("penstock.checkpoint._groups",),
        refused=stored.no_objects,
    ),
    Target(
        "stored.prepared",
        stored.read_prepared,
        stored.prepared_seeds,
        (),
        where="plan-first",
        refused=stored.no_objects,
    ),
    Target("stored.schema", stored.read_schema, stored.schema_seeds, (), where="sink.json"),
    Target("stored.staged", stored.read_staged, stored.staged_seeds, ("penstock.sink._write_ahead",), where=".arrow"),
    Target(
        "stored.run",
        stored.read_run,
        stored.run_seeds,
        (_FORMATS.replace("formats", "source") + "tracking._run_store",),
    ),
    Target(
        "stored.columns",
        stored.read_columns,
        stored.columns_seeds,
        (_FORMATS.replace("formats", "source") + "_schema_location",),
        refused=stored.refused_columns,
    ),
    Target(
        "stored.sketch",
        stored.read_sketch,
        stored.sketch_seeds,
        ("penstock_filesystem.source.tracking._sketch", "penstock_filesystem.source.tracking._first_edition"),
        refused=stored.refused_sketches,
    ),
    *(
        Target(f"stored.{name}", stored.reader_of(one), seeds, (), refused=_refused_forms(one))
        for name, (one, seeds) in SERIALIZERS.items()
    ),
]

#: Modules that take bytes apart which are not from outside, and why.
TRUSTED: dict[str, str] = {
    "penstock.spark._write": "the plan of a group's batch, made in this session and passed on by Spark",
    "penstock._commit._tasks": "what Spark carries between the driver and the tasks of one run",
    "penstock.cli._located": "a pipeline's file: who runs the command has written it",
    "penstock.cli._check_targets": "a pipeline's file: who runs the command has written it",
    "penstock.cli._pipeline": "a pipeline's file: who runs the command has written it",
    "penstock.spark._driver_counts": "counters that this user's own processes have written, in a folder of theirs",
    "penstock.spark._session_metrics": "Spark's progress of a query in this process",
    "penstock._path_options": "an option of the user's",
    "penstock.serialization.values._text": "offsets of arrays that Arrow has made here",
    "penstock_cassandra.options._columns": "an option of the user's",
    "penstock_cassandra.sink._rows": "offsets of arrays that are made here",
    "penstock_cassandra.types._encode": "cells that are made here",
    "penstock_cassandra.types._keys": "cells that are made here",
    "penstock_filesystem.formats.orc._stripes": "columns that Arrow has made here",
    "penstock_filesystem.formats.parquet._writer": "chunks of this sink's own, read as by files.parquet",
    "penstock_filesystem.options._source": "an option of the user's",
    "penstock.storage._azure_client": "the user's own key of a storage account",
    "penstock.storage._gcs_client": "the user's own key of a service account",
    "penstock_filesystem.sink.staging._multipart": "a marker of this sink's own, next to what it has uploaded",
    "penstock_filesystem.source.tracking._tracked_files": "a digest that is made here",
    "penstock_kafka.client.login._assertion": "a template of the user's",
    "penstock_kafka.client.librdkafka._checked": "statistics of librdkafka in this process",
    "penstock_kafka.client.producer._sender": "batches that this process has compressed itself",
    "penstock_kafka.options._positions": "an option of the user's",
    "penstock_pravega.options._cuts": "an option of the user's",
}
