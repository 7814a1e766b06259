"""The Kafka source."""

from penstock_kafka.source.kafka_source import KafkaSource

__all__ = ["KafkaSource"]
