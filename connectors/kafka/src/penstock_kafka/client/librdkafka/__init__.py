"""Both contracts once more, with confluent-kafka's classes on librdkafka.

Importing it takes a while: it brings confluent-kafka.
"""

from penstock_kafka.client.librdkafka._consumer import LibrdkafkaConsumer
from penstock_kafka.client.librdkafka._producer import LibrdkafkaProducer

__all__ = ["LibrdkafkaConsumer", "LibrdkafkaProducer"]
