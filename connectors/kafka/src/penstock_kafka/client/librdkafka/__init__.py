"""Both contracts once more, with confluent-kafka's classes on librdkafka, and its client for administration.

Importing it takes a while: it brings confluent-kafka.
"""

from penstock_kafka.client.librdkafka._admin import PATIENCE_SECONDS, KafkaAdmin
from penstock_kafka.client.librdkafka._consumer import LibrdkafkaConsumer
from penstock_kafka.client.librdkafka._partition_counts import PartitionCounts, partition_counts
from penstock_kafka.client.librdkafka._producer import LibrdkafkaProducer

__all__ = [
    "PATIENCE_SECONDS",
    "KafkaAdmin",
    "LibrdkafkaConsumer",
    "LibrdkafkaProducer",
    "PartitionCounts",
    "partition_counts",
]
