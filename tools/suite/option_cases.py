"""The options of all connectors, with values that work: for tests that combine them."""

from __future__ import annotations

import functools
import json

import pyarrow as pa

from penstock._plugins import installed_connectors
from penstock.options import OptionValues
from penstock.testing._option_cases import OptionCases
from penstock_filesystem.formats import READ_FORMATS, WRITE_FORMATS

__all__ = ["EXAMPLES", "SCHEMA", "SIDES", "cases"]

#: Options without which nothing is made.
GIVEN = {
    "filesystem source": {"path": "/in", "format": "csv"},
    "filesystem sink": {"path": "/out"},
    "kafka source": {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "t"},
    "kafka sink": {"kafka.bootstrap.servers": "127.0.0.1:9", "topic": "t"},
    "cassandra source": {"keyspace": "k", "table": "t"},
    "cassandra sink": {"keyspace": "k", "table": "t"},
    "pravega source": {"controller": "tcp://127.0.0.1:9", "scope": "s", "stream": "t"},
    "pravega sink": {"controller": "tcp://127.0.0.1:9", "scope": "s", "stream": "t"},
}
#: Texts of options whose declaration does not say which they take.
TIMES = {"watermark.timestamps": ["at"], "watermark.strategy": ["bounded"]}
FORMATS = {"value.format": ["json", "debezium"], "value.schema": ["n long"], "value.format.*": ["timeZone=Europe/Rome"]}
AVRO = json.dumps({"type": "string"})
WRITTEN = {"value.format": ["string", "avro"], "value.schema": [AVRO], "value.format.*": ["charset=latin-1"]}
KAFKA = {"kafka.*": ["client.id=me", "request.timeout.ms=7000"], "kafka.bootstrap.servers": ["127.0.0.1:7"]}
THIRD_PARTY_FORMAT = "suite.third_party_formats:FixedWidth"
AUTHENTICATED = {
    "authProvider": ["cassandra.auth:PlainTextAuthProvider"],
    "authProvider.config": ["username=anna,password=b"],
}
PLACES = ['{"t":{"0":7}}']
EXAMPLES = {
    "filesystem source": {
        "format": [*READ_FORMATS, THIRD_PARTY_FORMAT],
        "format.*": ["width=3", "width=4"],
        "paths": ['["/other"]'],
        "basePath": ["/"],
        "notificationQueue": ["http://127.0.0.1:9/1/queue"],
        "encoding": ["latin-1"],
        "samplingRatio": ["0.5"],
        "lineSep": [";"],
        "timeZone": ["Europe/Rome"],
        "modifiedAfter": ["2020-01-01"],
        "modifiedBefore": ["2100-01-01 12:00:00"],
        "dateFormat": ["dd.MM.yyyy"],
        "timestampFormat": ["dd.MM.yyyy HH:mm"],
        "timestampNTZFormat": ["dd.MM.yyyy HH:mm"],
        **{name: ["|"] for name in ("sep", "quote", "escape", "comment")},
    },
    "filesystem sink": {
        "format": [*WRITE_FORMATS, THIRD_PARTY_FORMAT],
        "format.*": ["width=3", "width=4"],
        "compression": ["gzip"],
        "bucketAssigner": ["basePath"],
        "rollingPolicy": ["onCheckpoint"],
        "bucketColumn": ["at"],
        "bucketPattern": ["yyyy"],
        "bucketTimeZone": ["Europe/Rome"],
        "partitionColumns": ["p"],
        "dateFormat": ["dd.MM.yyyy"],
        "timestampFormat": ["dd.MM.yyyy HH:mm"],
        "timestampNTZFormat": ["dd.MM.yyyy HH:mm"],
        "lineSep": [";"],
        **{name: ["|"] for name in ("sep", "quote", "escape")},
    },
    "kafka source": {
        **KAFKA,
        **TIMES,
        **FORMATS,
        "assign": ['{"t":[0]}'],
        "startingOffsets": ["earliest", *PLACES, "group-offsets"],
        "endingOffsets": PLACES,
        "startingOffsetsByTimestamp": PLACES,
        "endingOffsetsByTimestamp": PLACES,
        "watermark.timestamps": ["at"],
        "key.format": ["string", "json"],
        "key.schema": ["n long"],
        "key.format.*": ["timeZone=Europe/Rome"],
        "commitGroupOffsets": ["g"],
    },
    "kafka sink": {
        **KAFKA,
        **WRITTEN,
        "partitioner": ["round-robin", "task"],
        "keyColumns": ["key"],
        "operationColumn": ["p"],
        "unavailableColumn": ["gone"],
        **{name.replace("value", "key"): texts for name, texts in WRITTEN.items()},
    },
    "cassandra source": {**AUTHENTICATED, "bundle": [], "where": ["n > 1"], "query": ["SELECT n FROM k.t"]},
    "cassandra sink": {
        **AUTHENTICATED,
        "bundle": [],
        "columns": [],
        "statement": ["INSERT INTO k.t (n) VALUES (:n)"],
    },
    "pravega source": {
        **TIMES,
        **FORMATS,
        "controller": ["tls://127.0.0.1:7"],
        "keycloakFile": [],
        "startingStreamCut": ["tail"],
        "endingStreamCut": ["tail"],
    },
    "pravega sink": {
        **WRITTEN,
        "controller": ["tls://127.0.0.1:7"],
        "keycloakFile": [],
        "watermark.timestamps": ["at"],
    },
}
TLS = {"controller": "tls://127.0.0.1:9"}
JSON = {"value.format": "json"}
ON_S3 = {"path": "s3://bucket/in"}
#: What an option needs without declaring it, or in another form.
BESIDE = {
    "filesystem source": {"notificationQueue": ON_S3, "listingInterval": ON_S3},
    "pravega source": {"tls.caFile": TLS, "tls.checkHostname": TLS},
    "pravega sink": {"tls.caFile": TLS, "tls.checkHostname": TLS},
    "kafka sink": {"keyColumns": JSON, "operationColumn": JSON, "unavailableColumn": JSON},
    "kafka source": {"groupOffsetsFallback": {"kafka.group.id": "g", "startingOffsets": "group-offsets"}},
}
SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("key", "value", "p")] + [("at", pa.timestamp("us", "UTC")), ("n", pa.int64())]
)


@functools.cache
def cases(name: str) -> OptionCases:
    """Returns the cases of a side, such as ``kafka source``."""
    connector, _, side = name.partition(" ")
    made = next(one for one in installed_connectors() if one.name == connector).load()
    declared = made.source_options if side == "source" else made.sink_options
    assert declared is not None
    schema = SCHEMA.append(pa.field("gone", pa.list_(pa.string()))) if name == "kafka sink" else SCHEMA
    make = made.create_source if side == "source" else functools.partial(made.create_sink, schema=schema)
    known = (GIVEN.get(name, {}), EXAMPLES.get(name, {}), (OptionValues,), BESIDE.get(name, {}))
    return OptionCases(declared, make, *known)


#: ``kafka source``, ``kafka sink``, and so on.
SIDES = [f"{one.name} {side}" for one in installed_connectors() for side in ("source", "sink")]
