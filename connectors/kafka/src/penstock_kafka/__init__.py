"""Kafka to and from Spark, as the format ``penstock.kafka``."""

from penstock_kafka._connector import KafkaConnector

__all__ = ["KafkaConnector"]
