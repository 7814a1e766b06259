"""The options of the built-in formats, as data. Connectors offer them below a prefix of theirs (``value.avro.``)."""

from __future__ import annotations

from typing import Any

from penstock.options import Option, OptionSet, names_http_server, unless, when
from penstock.serialization.values import check_zone

__all__ = [
    "AVRO_OPTIONS",
    "DEBEZIUM_OPTIONS",
    "FORMAT_OPTIONS",
    "JSON_OPTIONS",
    "PROTOBUF_OPTIONS",
    "READ_ONLY",
    "STRING_OPTIONS",
]

#: Registries in memory, as Confluent's client has them.
_OF_TESTS = "mock://"


def _check_placeholder(text: str) -> None:
    if not text.removeprefix("hex:"):
        raise ValueError("a text with a character in it")
    if text.startswith("hex:"):
        try:
            bytes.fromhex(text[4:])
        except ValueError:
            raise ValueError("a text, or hex: and pairs of hexadecimal digits") from None


def _check_addresses(text: str) -> None:
    for address in map(str.strip, text.split(",")):
        is_well = names_http_server(address) or address.startswith(_OF_TESTS)
        if not is_well and "@" not in text:  # a user is refused where the address is used: this error shows the text
            raise ValueError("an http or https address, or several with commas between")


STRING_OPTIONS = OptionSet([Option("charset", "Character set of the text.", default="UTF-8")])

_GLUE = when("schema.registry.type", "glue")
_APICURIO = when("schema.registry.type", "apicurio")
#: Whichever registry it is.
_ASKED = ((when("schema.registry.url"), _GLUE),)
#: AWS's own client knows the account and the certificates.
_ASKED_BY_HTTP = (when("schema.registry.url"), unless("schema.registry.type", "glue"))
_REGISTRY = (
    Option(
        "schema.registry.type",
        "Whose registry it is: confluent (or one with the same interface), apicurio (by its own) or glue (AWS Glue). "
        "The last two are for avro and json.",
        "choice",
        "confluent",
        ("confluent", "apicurio", "glue"),
    ),
    Option(
        "schema.registry.url",
        "Address of the schema registry, or several with commas; for apicurio …/apis/registry/v3, for glue only if it "
        "is not AWS's own. Records then begin with a schema's id.",
        check=_check_addresses,
        credentials=("basic.auth.user.info",),
    ),
    Option("schema.registry.region", "Region of AWS Glue; unset, as boto3 finds it.", needs=(_GLUE,)),
    Option("schema.registry.name", "Registry of AWS Glue; unset, default-registry.", needs=(_GLUE,)),
    Option("schema.registry.group", "Group in Apicurio.", default="default", needs=(_APICURIO,)),
    Option(
        "schema.registry.id",
        "Which of Apicurio's ids the records name.",
        "choice",
        "contentId",
        ("contentId", "globalId"),
        needs=(_APICURIO,),
    ),
    Option(
        "schema.registry.id.bytes",
        "How long Apicurio's ids in the records are: 4 in its release 3, 8 in earlier ones.",
        "choice",
        "4",
        ("4", "8"),
        needs=(_APICURIO,),
    ),
    Option("basic.auth.user.info", "user:password for the registry.", secret=True, needs=_ASKED_BY_HTTP),
    Option(
        "ssl.ca.location",
        "File of CA certificates that the registry's is checked against.",
        "file",
        needs=_ASKED_BY_HTTP,
    ),
    Option("ssl.certificate.location", "Client certificate (PEM) for the registry.", "file", needs=_ASKED_BY_HTTP),
    Option("ssl.key.location", "Key of the client certificate (PEM).", "file", needs=_ASKED_BY_HTTP),
    Option("ssl.key.password", "Password of that key.", secret=True, needs=_ASKED_BY_HTTP),
    Option(
        "request.timeout", "How long to wait for an answer of the registry.", "duration", "10s", minimum=1, needs=_ASKED
    ),
    Option("max.retries", "How often a request to the registry is tried again.", "int", "3", minimum=0, needs=_ASKED),
    Option("subject", "Subject in the registry; unset, by the strategy.", needs=_ASKED),
    Option(
        "subject.name.strategy",
        "Subject if none is given: <topic>-value (or -key; with glue <topic>), the record's full name, or "
        "<topic>-<record>.",
        "choice",
        "topic",
        ("topic", "record", "topic-record"),
        needs=(*_ASKED, unless("subject")),
        tolerated=True,
    ),
    Option("topic", "Topic, for the subject's name. Set by the connector."),
    Option(
        "part",
        "Part of the record, for the subject's name. Set by the connector.",
        "choice",
        "value",
        ("key", "value"),
    ),
)

#: Of formats whose schemas are written to a registry.
_WRITING = (
    Option(
        "auto.register.schemas",
        "Writing: register the schema; else it must be there.",
        "bool",
        "true",
        needs=_ASKED,
        only_in="writing",
        tolerated=True,
    ),
    Option(
        "use.latest.version",
        "Writing: with the subject's latest schema instead.",
        "bool",
        "false",
        only_in="writing",
        tolerated=True,
    ),
)

JSON_OPTIONS = OptionSet(
    [
        Option(
            "timeZone",
            "Reading: zone of timestamps that name none, for columns with a zone.",
            default="UTC",
            check=check_zone,
            only_in="reading",
            tolerated=True,
        ),
        Option(
            "ignoreNullFields",
            "Writing: leave out fields that are null.",
            "bool",
            "true",
            only_in="writing",
            tolerated=True,
        ),
        Option(
            "schema",
            "JSON schema. Reading: what the column is; unset, as declared, or the subject's latest. Writing with a "
            "registry: unset, derived from the column.",
        ),
        *_REGISTRY,
        *_WRITING,
    ]
)

#: Both sides of a pipeline may be given the same options: what one of them can't use is not refused.
_DERIVED: dict[str, Any] = {
    "needs": (unless("schema"), unless("use.latest.version")),
    "only_in": "writing",
    "tolerated": True,
}

AVRO_OPTIONS = OptionSet(
    [
        Option(
            "schema",
            "Avro schema (JSON). Reading without a registry: what the records were written with, needed. Reading with "
            "one: what to read them as; unset, the subject's latest. Writing: unset, derived from the column.",
        ),
        Option(
            "readerSchema",
            "Reading without a registry: what to read the records as; unset, as written.",
            only_in="reading",
            tolerated=True,
        ),
        Option("recordName", "Writing: name of a derived record schema.", default="topLevelRecord", **_DERIVED),
        Option("recordNamespace", "Writing: namespace of a derived record schema.", default="", **_DERIVED),
        *_REGISTRY,
        *_WRITING,
    ]
)

_OF_THE_CONNECTOR = "Needed if the records say nothing of it: as the option of Debezium's connector"

DEBEZIUM_OPTIONS = OptionSet(
    [
        *(option for option in JSON_OPTIONS if option.name == "timeZone"),
        Option(
            "decimal.handling.mode",
            f"How texts in decimal columns are meant. {_OF_THE_CONNECTOR}.",
            "choice",
            choices=("precise", "string", "double"),
            excludes=(when("schema.registry.url"),),
        ),
        Option(
            "binary.handling.mode",
            f"How bytes are written as text. {_OF_THE_CONNECTOR}.",
            "choice",
            choices=("bytes", "base64", "base64-url-safe", "hex"),
        ),
        Option(
            "timestamp.unit",
            "Unit of timestamps that are numbers. Needed if the records say nothing of it.",
            "choice",
            choices=("ms", "us", "ns"),
        ),
        Option(
            "unavailable.value.placeholder",
            "What stands for a value that the database did not send: as the option of Debezium's connector.",
            default="__debezium_unavailable_value",
            check=_check_placeholder,
        ),
        *_REGISTRY,
    ]
)

PROTOBUF_OPTIONS = OptionSet(
    [
        Option(
            "descriptorFile",
            "File of the driver that protoc --include_imports --descriptor_set_out=… wrote. Needed without a registry. "
            "Reading with one: what to read records as; unset, the subject's latest schema. Writing: unset, with "
            "use.latest.version.",
            "file",
        ),
        Option(
            "message",
            "Full name of the message, as shop.Order. Unset, the first of the registry's schema, or the only one of "
            "the file.",
        ),
        *_REGISTRY,
        *_WRITING,
    ]
)

#: Options by name of the built-in format.
FORMAT_OPTIONS: dict[str, OptionSet] = {
    "binary": OptionSet(),
    "string": STRING_OPTIONS,
    "json": JSON_OPTIONS,
    "avro": AVRO_OPTIONS,
    "protobuf": PROTOBUF_OPTIONS,
    "debezium": DEBEZIUM_OPTIONS,
}

#: Names of the built-in formats that only read.
READ_ONLY = frozenset({"debezium"})
