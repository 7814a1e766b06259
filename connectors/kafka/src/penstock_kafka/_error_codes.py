"""Kafka's error codes. A number is never used for another situation."""

from __future__ import annotations

from penstock.error_codes import ErrorBook

__all__ = ["BOOK"]

#: ``PENSTOCK-KAFKA-NNN``.
BOOK = ErrorBook("KAFKA")

NO_BROKER = BOOK.add(
    1,
    "No Kafka broker answers",
    raised_in=["penstock_kafka.client:TransientClientError", "penstock_kafka.client:RetriableError",
               "penstock_kafka.source:RetriableError", "penstock_kafka.transactions:RetriableError"],
    causes=["The host's name does not resolve, or nothing listens at the port.",
            "The brokers are down, restarting or overloaded.", "A firewall drops what is sent.",
            "The brokers advertise addresses (`advertised.listeners`) that can't be reached from here."],
    remedies=["Correct `kafka.bootstrap.servers`.", "Try from the same machine: `nc -vz HOST PORT`.",
              "A query: restart it once the brokers answer; it continues where it stopped."],
)  # fmt: skip
WRONG_PORT = BOOK.add(
    2,
    "The address is not that of a Kafka broker, or TLS does not match",
    raised_in=["penstock_kafka.client.broker._wrong_port"],
    causes=["The port speaks TLS and `kafka.security.protocol` is without, or the other way round.",
            "Another server listens there, such as an HTTP proxy, a REST interface or SSH."],
    remedies=["Set `kafka.security.protocol` to what the listener of that port speaks.",
              "Correct the port in `kafka.bootstrap.servers`."],
)  # fmt: skip
CREDENTIALS = BOOK.add(
    3,
    "The brokers refuse the credentials, or the client's TLS or SASL settings",
    raised_in=["penstock_kafka.client:BadConfigurationError"],
    causes=["User, password, token or certificate is wrong.", "The SASL mechanism is not the listener's.",
            "The brokers' certificate is not trusted."],
    remedies=["Correct `kafka.sasl.*` or `kafka.ssl.*`.", "Compare `kafka.sasl.mechanism` with the listener's."],
)  # fmt: skip
NOT_PERMITTED = BOOK.add(
    4,
    "The user lacks a permission",
    causes=["An ACL on the topic, the consumer group or the transactional id is missing."],
    remedies=["Grant what the message names (docs/production/rights.md)."],
)
NO_TOPIC = BOOK.add(
    5,
    "A topic does not exist",
    raised_in=["penstock_kafka.client.broker._admin", "penstock_kafka.client:DataLostError"],
    causes=["The name is misspelled, or the topic was deleted.", "The user may not describe it."],
    remedies=["Create the topic, or correct `subscribe`, `assign` or `topic`."],
)
OFFSET_GONE = BOOK.add(
    6,
    "A partition does not hold an offset",
    raised_in=["penstock_kafka.client:OffsetOutOfRangeError", "penstock_kafka.client:TopicReplacedError"],
    causes=["Retention removed the records before they were read.", "The topic was deleted and created again.",
            "A start offset was given that is beyond the partition's end."],
    remedies=["Keep records longer than the query is stopped.",
              "`failOnDataLoss=false` continues after the gap and counts it.", "Correct `startingOffsets`."],
)  # fmt: skip
REFUSED_RECORD = BOOK.add(
    7,
    "The brokers refuse a record",
    raised_in=["penstock_kafka.client:DeliveryError"],
    causes=["It is larger than the topic's `max.message.bytes`.", "The topic does not exist, or can't be written."],
    remedies=[
        "Raise `max.message.bytes` of the topic.",
        "Or set `kafka.max.request.size` to that limit, and `deadLetters.format`: larger rows become dead letters.",
    ],
)
FENCED = BOOK.add(
    8,
    "Another producer has taken over a transaction",
    raised_in=["penstock_kafka.client:ProducerFencedError"],
    causes=["A second driver runs the same query.", "The transaction timed out."],
    remedies=["Stop the other driver.", "Restart the query: the batch is written again."],
)
CLIENT_FAILED = BOOK.add(
    9,
    "The Kafka client can't continue",
    raised_in=["penstock_kafka.client:FatalError"],
    causes=["An answer that the client can't read, or a failure that it reports as final."],
    remedies=["Restart the query.", "Report it with the message, if it comes again."],
)
BOOK.add(
    10,
    "An option of Kafka is wrong",
    raised_in=["penstock_kafka.options", "penstock_kafka.config", "penstock_kafka.client._open"],
    causes=["A value of another form, options that exclude each other, or a name that can't be a topic's."],
    remedies=["Correct the option that the message names (docs/kafka.md)."],
)
BOOK.add(
    11,
    "The columns or the partitioner do not fit a topic",
    raised_in=["penstock_kafka.sink"],
    causes=["There is no column `value`, or no topic for a row.", "The partitioner returns other partitions."],
    remedies=["Select the columns `key`, `value` and, without the option `topic`, `topic`."],
)
BOOK.add(
    12,
    "A transaction can't be ended, or is too old",
    raised_in=["penstock_kafka.sink._committer", "penstock_kafka.sink._states", "penstock_kafka._cli",
               "penstock_kafka.transactions"],
    causes=["The query was down for longer than the brokers keep transactions.", "Another process ended it."],
    remedies=["`penstock kafka transactions list --checkpoint CHECKPOINT` shows what is open.",
              "See docs/production/recovering.md, \"Readers of a topic are held back\"."],
)  # fmt: skip
BOOK.add(
    13,
    "A record can't be read",
    raised_in=["penstock_kafka.client:BadDataError", "penstock_kafka.source"],
    causes=["The batch is damaged, or compressed by a codec that the client lacks.",
            "A header or timestamp is beyond what the columns hold."],
    remedies=["Start after it with `startingOffsets`.", "Set `badRecords` for records that can't be decoded."],
)  # fmt: skip
TOKEN = BOOK.add(
    14,
    "The address for tokens (OAuth) refuses or does not answer",
    raised_in=["penstock_kafka.client.login._oidc"],
    causes=["Client id, secret or scope is wrong.", "The address or its certificate is wrong."],
    remedies=["Correct `kafka.sasl.oauthbearer.*`."],
)
BOOK.add(
    15,
    "A development server of Kafka can't be started",
    raised_in=["penstock_kafka.dev"],
    causes=["A port is taken, Java or another program is missing, or the version is not one that can be started."],
    remedies=["Do as the message says.", "See `penstock dev status`."],
)
