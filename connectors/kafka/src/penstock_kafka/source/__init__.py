"""The Kafka source."""

from penstock_kafka.source._source import KafkaSource

__all__ = ["KafkaSource"]
