"""The options of source and sink, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.options import Option, OptionSet
from penstock.serialization.formats import format_options
from penstock.source.event_time import event_time_options
from penstock_kafka.config import CLIENTS, client_name, is_secret_setting

__all__ = ["SINK_OPTIONS", "SOURCE_OPTIONS"]


@dataclass(frozen=True)
class _ClientOption(Option):
    """The option ``client``, which takes the former names as well: they are in the checkpoints of queries."""

    def parse(self, text: str) -> Any:
        """Returns today's name of the client. Raises BadConfigurationError that names the option."""
        return super().parse(client_name(text))


_CLIENT = (
    Option("kafka.bootstrap.servers", "Brokers to ask first, as host:port with commas between; always needed"),
    Option(
        "kafka.*",
        "Settings of the Kafka client, in the Java client's spelling or librdkafka's, such as kafka.security.protocol",
        secret_names=is_secret_setting,
        credentials=("kafka.sasl.oauthbearer.client.id", "kafka.sasl.oauthbearer.client.secret"),
    ),
    _ClientOption(
        "client",
        "Which client moves records: protocol (compiled, fastest), librdkafka, or auto: protocol where it is compiled",
        kind="choice",
        choices=CLIENTS,
        default="auto",
    ),
)

_RANGE = (
    Option("assign", 'Partitions to read, as JSON: {"topicA": [0, 1], "topicB": [2]}'),
    Option("subscribe", "Topics to read, with commas between"),
    Option("subscribePattern", "Regular expression for the whole names of topics to read, also of those made later"),
    Option(
        "startingTimestamp",
        "Start at the first record at or after this time (ms since the epoch); goes before the next two",
        kind="int",
        minimum=0,
    ),
    Option(
        "startingOffsetsByTimestamp",
        'The same for each partition, as JSON: {"topicA": {"0": 1700000000000}}; goes before startingOffsets',
    ),
    Option(
        "startingOffsets",
        'Where a new query starts: earliest, latest, group-offsets, or JSON {"topicA": {"0": 23, "1": -1}, "topicB": '
        '"earliest"} where -2 is earliest and -1 latest. Default: latest for a stream, earliest for a batch',
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "A partition without a record at or after the starting time: fail, or start behind its last record",
        kind="choice",
        choices=("error", "latest"),
        default="error",
    ),
    Option(
        "groupOffsetsFallback",
        "startingOffsets=group-offsets, for a partition in which the group has committed nothing",
        kind="choice",
        choices=("earliest", "latest", "error"),
        default="error",
    ),
    Option(
        "endingTimestamp",
        "Stop before the first record at or after this time (ms since the epoch); goes before the next two",
        kind="int",
        minimum=0,
    ),
    Option("endingOffsetsByTimestamp", "The same for each partition, as JSON; goes before endingOffsets"),
    Option(
        "endingOffsets",
        'Where reading stops: latest (as of the start), or JSON {"topicA": {"0": 50, "1": -1}}. Default: latest for a '
        "batch; a stream without any of the three goes on, with one it ends",
    ),
    Option(
        "newPartitionsStart",
        "Where partitions are read from that are added to a topic while the query lives",
        kind="choice",
        choices=("earliest", "latest"),
        default="earliest",
    ),
    Option(
        "newTopicsStart",
        "Where topics are read from that appear while the query lives",
        kind="choice",
        choices=("earliest", "latest"),
        default="earliest",
    ),
    Option(
        "discoveryInterval",
        "Pause between two looks for new partitions, new topics and latest offsets, off the trigger's path",
        kind="duration",
        default="10s",
        minimum=1,
    ),
)

_BATCHES = (
    Option("maxOffsetsPerTrigger", "Most offsets in a micro-batch, shared out among partitions", kind="int", minimum=1),
    Option(
        "minOffsetsPerTrigger",
        "A micro-batch waits for so many offsets, but not longer than maxTriggerDelay",
        kind="int",
        minimum=1,
    ),
    Option(
        "maxTriggerDelay",
        "How long minOffsetsPerTrigger may hold a micro-batch back",
        kind="duration",
        default="15m",
        minimum=1,
    ),
    Option("minPartitions", "Least number of tasks, about; large ranges are split", kind="int", minimum=1),
    Option(
        "maxRecordsPerPartition", "Most offsets that one task reads; larger ranges are split", kind="int", minimum=1
    ),
)

_READING = (
    Option("includeHeaders", "Add the column headers", kind="bool", default="false"),
    Option(
        "failOnDataLoss",
        "Fail if records were deleted before they were read, instead of going on behind them with a warning",
        kind="bool",
        default="true",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        "How long a task waits for a broker's next records (ms) before it fails",
        kind="duration",
        default="120000",
        minimum=1,
    ),
    Option(
        "fetchOffset.numRetries", "How often a look-up of offsets is tried again", kind="int", default="3", minimum=0
    ),
    Option(
        "fetchOffset.retryIntervalMs",
        "Pause before it is tried again (ms)",
        kind="duration",
        default="10",
        minimum=0,
    ),
    Option(
        "groupIdPrefix",
        "Begins the group id that consumers show to brokers; unused if kafka.group.id is set",
        default="spark-kafka-source",
    ),
    Option(
        "commitGroupOffsets",
        "Consumer group into which the offsets of finished batches are committed, for monitoring of lag; may be that "
        "of kafka.group.id, which by itself commits nothing. The query itself never goes by them",
    ),
    Option(
        "badRecords",
        "A record that can't be decoded: fail, null in the decoded column, or deadLetter: null, and its raw bytes with "
        "the reason in the column badRecordColumn",
        kind="choice",
        choices=("fail", "null", "deadLetter"),
        default="fail",
    ),
    Option("badRecordColumn", "badRecords=deadLetter: name of its column", default="_bad_record"),
)

#: What the source can be told.
SOURCE_OPTIONS = OptionSet(
    (
        *_CLIENT,
        *_RANGE,
        *_BATCHES,
        *event_time_options("timestamp"),
        *_READING,
        *format_options("key", reading=True),
        *format_options("value", reading=True),
    )
)

#: What the sink can be told.
SINK_OPTIONS = OptionSet(
    (
        *_CLIENT,
        Option("topic", "Topic of every row; goes before a column topic"),
        Option(
            "includeHeaders",
            "Taken for Spark's sake and without an effect, as there: a column headers is always written",
            kind="bool",
            default="false",
        ),
        Option(
            "delivery",
            "none (records in flight may be lost in a crash), at-least-once, or exactly-once by transactions, which "
            "needs a checkpoint and consumers that read committed records only",
            kind="choice",
            choices=("none", "at-least-once", "exactly-once"),
            default="at-least-once",
        ),
        Option(
            "partitioner",
            "Partition of rows without one in the column partition: murmur2 (hash of the key, the same as the Java "
            "client's; also called default), round-robin, task (all rows of a task), or module:function",
            default="murmur2",
        ),
        Option(
            "transactionalIdPrefix",
            "exactly-once: begins every transactional id, before the query's id, for access rules by prefix; default: "
            "penstock",
        ),
        Option(
            "transactionTimeout",
            "exactly-once: how long a transaction may stay open before the broker aborts it; default: the broker's "
            "maximum, transaction.max.timeout.ms",
            kind="duration",
            minimum=1000,
        ),
        Option(
            "logFailuresOnly",
            "delivery=none: log records that a broker refuses instead of failing",
            kind="bool",
            default="false",
        ),
        *format_options("key", reading=False),
        *format_options("value", reading=False),
    )
)
