"""The options of the built-in formats, as data. Connectors offer them below a prefix of theirs (``value.avro.``)."""

from __future__ import annotations

from penstock.options import Option, OptionSet
from penstock.serialization.values import check_zone

__all__ = ["AVRO_OPTIONS", "FORMAT_OPTIONS", "JSON_OPTIONS", "STRING_OPTIONS"]

STRING_OPTIONS = OptionSet([Option("charset", "Character set of the text.", default="UTF-8")])

JSON_OPTIONS = OptionSet(
    [
        Option(
            "timeZone",
            "Reading: zone of timestamps that name none, for columns with a zone.",
            default="UTC",
            check=check_zone,
        ),
        Option("ignoreNullFields", "Writing: leave out fields that are null.", "bool", "true"),
    ]
)

AVRO_OPTIONS = OptionSet(
    [
        Option(
            "schema",
            "Avro schema (JSON). Reading without a registry: what the records were written with, needed. Reading with "
            "one: what to read them as; unset, the subject's latest. Writing: unset, derived from the column.",
        ),
        Option("readerSchema", "Reading without a registry: what to read the records as; unset, as written."),
        Option("recordName", "Writing: name of a derived record schema.", default="topLevelRecord"),
        Option("recordNamespace", "Writing: namespace of a derived record schema.", default=""),
        Option(
            "schema.registry.url",
            "Address of a Confluent-compatible schema registry, or several with commas. Records then begin with a "
            "schema's id.",
            credentials=("basic.auth.user.info",),
        ),
        Option("basic.auth.user.info", "user:password for the registry.", secret=True),
        Option("ssl.ca.location", "File of CA certificates that the registry's is checked against."),
        Option("ssl.certificate.location", "Client certificate (PEM) for the registry."),
        Option("ssl.key.location", "Key of the client certificate (PEM)."),
        Option("ssl.key.password", "Password of that key.", secret=True),
        Option("request.timeout", "How long to wait for an answer of the registry.", "duration", "10s", minimum=1),
        Option("max.retries", "How often a request to the registry is tried again.", "int", "3", minimum=0),
        Option("subject", "Subject in the registry; unset, by the strategy."),
        Option(
            "subject.name.strategy",
            "Subject if none is given: <topic>-value (or -key), the record's full name, or <topic>-<record>.",
            "choice",
            "topic",
            ("topic", "record", "topic-record"),
        ),
        Option("topic", "Topic, for the subject's name. Set by the connector."),
        Option(
            "part",
            "Part of the record, for the subject's name. Set by the connector.",
            "choice",
            "value",
            ("key", "value"),
        ),
        Option("auto.register.schemas", "Writing: register the schema; else it must be there.", "bool", "true"),
        Option("use.latest.version", "Writing: with the subject's latest schema instead.", "bool", "false"),
    ]
)

#: Options by name of the built-in format.
FORMAT_OPTIONS: dict[str, OptionSet] = {
    "binary": OptionSet(),
    "string": STRING_OPTIONS,
    "json": JSON_OPTIONS,
    "avro": AVRO_OPTIONS,
}
