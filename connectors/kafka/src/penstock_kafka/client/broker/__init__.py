"""All that is said to brokers in Kafka's own protocol, on the connections of kafka-python.

Importing it takes a while: it brings kafka-python.
"""

from penstock_kafka.client.broker._admin import PATIENCE_SECONDS, KafkaAdmin, kafka_admin
from penstock_kafka.client.broker._arguments import kafka_python_arguments
from penstock_kafka.client.broker._connection import BrokerConnection
from penstock_kafka.client.broker._coordinators import Coordinators, coordinators
from penstock_kafka.client.broker._errors import (
    IDENTITY_LOST,
    MAYBE_WRITTEN,
    WRITTEN,
    ProblemError,
    is_refusal,
    problem_of,
    problem_of_code,
    raise_for,
)
from penstock_kafka.client.broker._features import (
    COMMITTING_OFFSETS,
    LISTING_TRANSACTIONS,
    READING,
    TRANSACTIONS,
    WRITING,
    WRITING_IDEMPOTENTLY,
    Feature,
)
from penstock_kafka.client.broker._kafka_python import find_coordinators
from penstock_kafka.client.broker._markers import Unmarked
from penstock_kafka.client.broker._metadata import SILENT_S, spelled_id
from penstock_kafka.client.broker._partitions import by_topic
from penstock_kafka.client.broker._pool import Connections, Settings, acquire, release
from penstock_kafka.client.broker._retrying import RetryingBrokers
from penstock_kafka.client.broker._settings import (
    CONNECTION_SETTINGS,
    YES_OR_NO,
    SettingsReader,
    known_settings,
)

__all__ = [
    "COMMITTING_OFFSETS",
    "CONNECTION_SETTINGS",
    "IDENTITY_LOST",
    "LISTING_TRANSACTIONS",
    "MAYBE_WRITTEN",
    "PATIENCE_SECONDS",
    "READING",
    "SILENT_S",
    "TRANSACTIONS",
    "WRITING",
    "WRITING_IDEMPOTENTLY",
    "WRITTEN",
    "YES_OR_NO",
    "BrokerConnection",
    "Connections",
    "Coordinators",
    "Feature",
    "KafkaAdmin",
    "ProblemError",
    "RetryingBrokers",
    "Settings",
    "SettingsReader",
    "Unmarked",
    "acquire",
    "by_topic",
    "coordinators",
    "find_coordinators",
    "is_refusal",
    "kafka_admin",
    "kafka_python_arguments",
    "known_settings",
    "problem_of",
    "problem_of_code",
    "raise_for",
    "release",
    "spelled_id",
]
