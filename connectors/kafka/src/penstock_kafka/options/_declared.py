"""The options of source and sink, as data."""

from __future__ import annotations

from penstock.options import Option, OptionSet, common_option, connecting, unless, when
from penstock.serialization.formats import format_options
from penstock.source.event_time import event_time_options
from penstock_kafka.config import CLIENTS, FORMER_CLIENTS, is_secret_setting, meaning_of, names_file

__all__ = ["PARTITIONERS", "SINK_OPTIONS", "SOURCE_OPTIONS"]

#: How the partition of a row is chosen, besides a function of the user's.
PARTITIONERS = ("murmur2", "round-robin", "task")

#: A starting time takes precedence over offsets, as in Spark.
_NO_STARTING_TIME = (unless("startingTimestamp"), unless("startingOffsetsByTimestamp"))
_TRANSACTIONS = (when("delivery", "exactly-once"),)
_KEYED = (when("keyColumns"),)
_NO_ENDING_TIME = (unless("endingTimestamp"), unless("endingOffsetsByTimestamp"))
_DECODED = (unless("key.format", "binary"), unless("value.format", "binary"))

_CLIENT = connecting(
    (
        Option("kafka.bootstrap.servers", "Brokers to ask first, as host:port with commas between; always needed"),
        Option(
            "kafka.*",
            "Settings of the Kafka client, in the Java client's spelling or librdkafka's, such as "
            "kafka.security.protocol",
            secret_names=is_secret_setting,
            meaning=meaning_of,
            names_file=names_file,
            credentials=("kafka.sasl.oauthbearer.client.id", "kafka.sasl.oauthbearer.client.secret"),
        ),
        Option(
            "client",
            "Which client moves records: protocol (compiled, fastest), librdkafka, or auto: protocol where it is "
            "compiled",
            kind="choice",
            choices=CLIENTS,
            default="auto",
            former_choices=FORMER_CLIENTS,
        ),
    )
)

_RANGE = (
    Option(
        "assign",
        'Partitions to read, as JSON: {"topicA": [0, 1], "topicB": [2]}',
        excludes=(when("subscribe"), when("subscribePattern")),
    ),
    Option(
        "subscribe",
        "Topics to read, with commas between",
        required_with=(unless("subscribePattern"), unless("assign")),
        excludes=(when("subscribePattern"),),
    ),
    Option(
        "subscribePattern",
        "Regular expression that is found in the names of topics to read, also of those made later; ^orders$ is for a "
        "whole name",
    ),
    Option(
        "startingTimestamp",
        "Start at the first record at or after this time (ms since the epoch)",
        kind="int",
        minimum=0,
        at_restart="kept",
    ),
    Option(
        "startingOffsetsByTimestamp",
        'The same for each partition, as JSON: {"topicA": {"0": 1700000000000}}',
        needs=_NO_STARTING_TIME[:1],
        tolerated=True,
        at_restart="kept",
    ),
    Option(
        "startingOffsets",
        'Where a new query starts: earliest, latest, group-offsets, or JSON {"topicA": {"0": 23, "1": -1}, "topicB": '
        '"earliest"} where -2 is earliest and -1 latest. Default: latest for a stream, earliest for a batch',
        needs=_NO_STARTING_TIME,
        tolerated=True,
        at_restart="kept",
        words=("earliest", "latest", "group-offsets"),
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "A partition without a record at or after the starting time: fail, or start after its last record",
        kind="choice",
        choices=("error", "latest"),
        default="error",
        needs=((when("startingTimestamp"), when("startingOffsetsByTimestamp")),),
        at_restart="kept",
    ),
    Option(
        "groupOffsetsFallback",
        "Where a partition is read from in which the group has committed nothing",
        kind="choice",
        choices=("earliest", "latest", "error"),
        default="error",
        needs=(when("startingOffsets", "group-offsets"), *_NO_STARTING_TIME),
        at_restart="kept",
    ),
    Option(
        "endingTimestamp",
        "Stop before the first record at or after this time (ms since the epoch)",
        kind="int",
        minimum=0,
        at_restart="kept once set",
    ),
    Option(
        "endingOffsetsByTimestamp",
        "The same for each partition, as JSON",
        needs=_NO_ENDING_TIME[:1],
        tolerated=True,
        at_restart="kept once set",
    ),
    Option(
        "endingOffsets",
        'Where reading stops: latest (as of the start), or JSON {"topicA": {"0": 50, "1": -1}}. Default: latest for a '
        "batch; a stream without any of the three continues, with one it ends",
        needs=_NO_ENDING_TIME,
        tolerated=True,
        at_restart="kept once set",
        words=("latest",),
    ),
    Option(
        "newPartitionsStart",
        "Where partitions are read from that are added to a topic while the query lives",
        kind="choice",
        choices=("earliest", "latest"),
        default="earliest",
        only_in="stream",
    ),
    Option(
        "newTopicsStart",
        "Where topics are read from that appear while the query lives",
        kind="choice",
        choices=("earliest", "latest"),
        default="earliest",
        only_in="stream",
    ),
    common_option(
        "discoveryInterval", ": partitions, topics and latest offsets, off the trigger's path", default="10s"
    ),
)

_BATCHES = (
    common_option(
        "maxRowsPerTrigger", ", counted as offsets and shared out among partitions", aliases=("maxOffsetsPerTrigger",)
    ),
    Option(
        "minRowsPerTrigger",
        "A micro-batch waits for so many offsets, but not longer than maxTriggerDelay",
        kind="int",
        minimum=1,
        only_in="stream",
        tolerated=True,
        aliases=("minOffsetsPerTrigger",),
    ),
    Option(
        "maxTriggerDelay",
        "How long minRowsPerTrigger may hold a micro-batch back",
        kind="duration",
        default="15m",
        minimum=1,
        only_in="stream",
        needs=(when("minRowsPerTrigger"),),
    ),
    Option("minPartitions", "Least number of tasks, about; large ranges are split", kind="int", minimum=1),
    Option(
        "maxRecordsPerPartition", "Most offsets that one task reads; larger ranges are split", kind="int", minimum=1
    ),
)

_READING = (
    Option("includeHeaders", "Add the column headers", kind="bool", default="false"),
    common_option("failOnDataLoss"),
    common_option("retryTimeout", aliases=("kafkaConsumer.pollTimeoutMs",)),
    Option(
        "fetchOffset.numRetries",
        "How often a partition that ends before the offset reached is looked at again, before its records count as "
        "lost; a failed call is tried again for retryTimeout",
        kind="int",
        default="3",
        minimum=0,
    ),
    Option(
        "fetchOffset.retryIntervalMs",
        "Pause before it is looked at again (ms)",
        kind="duration",
        default="10",
        minimum=0,
    ),
    Option(
        "groupIdPrefix",
        "Begins the group id that librdkafka's consumers show to brokers, unless kafka.group.id is set; protocol joins "
        "no group and shows none",
        default="spark-kafka-source",
        needs=(when("client", "auto", "librdkafka"),),
    ),
    Option(
        "commitGroupOffsets",
        "Consumer group into which the offsets of finished batches are committed, for monitoring of lag; may be that "
        "of kafka.group.id, which by itself commits nothing. The query itself never reads them",
        only_in="stream",
    ),
    common_option(
        "badRecords",
        ": fail, null (in the decoded column), or deadLetter (null, and its raw bytes with the reason in "
        "badRecordColumn)",
        choices=("fail", "null", "deadLetter"),
        default="fail",
        needs=(_DECODED,),
    ),
    common_option(
        "badRecordColumn",
        ": its raw bytes and the reason",
        default="_bad_record",
        needs=(when("badRecords", "deadLetter"),),
    ),
)

#: The options of the source.
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

#: The options of the sink.
SINK_OPTIONS = OptionSet(
    (
        *_CLIENT,
        Option(
            "topic",
            "Topic of every row; takes precedence over a column topic",
            required_with=(when("keyColumns"),),
        ),
        common_option(
            "keyColumns",
            ". Then rows are not columns of records: these are the record's key, and all columns are its value",
            needs=(unless("value.format", "binary"),),
            excludes=(when("partitioner", "round-robin", "task"),),
        ),
        common_option(
            "operationColumn",
            ": a row that is deleted is a record with a null value. Not in the value",
            needs=_KEYED,
        ),
        common_option(
            "unavailableColumn",
            ": a row with such a name fails, since a record holds the whole row. Not in the value",
            needs=_KEYED,
        ),
        Option(
            "includeHeaders",
            "Accepted for compatibility with Spark; has no effect, as there: a column headers is always written",
            kind="bool",
            default="false",
            ignored="a column headers is always written, as by Spark",
        ),
        common_option(
            "delivery",
            ": none (those in flight may be lost), at-least-once, or exactly-once by transactions, which needs a "
            "checkpoint and consumers that read committed records only",
            choices=("none", "at-least-once", "exactly-once"),
            default="at-least-once",
        ),
        Option(
            "partitioner",
            "Partition of rows without one in the column partition: murmur2 (hash of the key, the same as the Java "
            "client's), round-robin, task (all rows of a task), or module:function",
            default="murmur2",
            words=PARTITIONERS,
            choice_aliases=(("default", "murmur2"),),
        ),
        Option(
            "transactionalIdPrefix",
            "Begins every transactional id, before the query's id, for access rules by prefix; default: penstock",
            needs=_TRANSACTIONS,
        ),
        Option(
            "transactionTimeout",
            "How long a transaction may stay open before the broker aborts it; default: the broker's maximum, "
            "transaction.max.timeout.ms",
            kind="duration",
            minimum=1000,
            needs=_TRANSACTIONS,
        ),
        Option(
            "logFailuresOnly",
            "Log records that a broker refuses instead of failing",
            kind="bool",
            default="false",
            needs=(when("delivery", "none"),),
            advice="a record that is only logged is lost",
        ),
        *format_options("key", reading=False),
        *format_options("value", reading=False),
        common_option(
            "retryTimeout",
            ". Also for how long records are sent again, unless kafka.delivery.timeout.ms says otherwise",
        ),
    )
)
