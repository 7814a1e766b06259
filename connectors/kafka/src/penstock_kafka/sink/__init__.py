"""Writing to Kafka."""

from penstock_kafka.sink._sink import ExactlyOnceKafkaSink, KafkaSink, create_sink

__all__ = ["ExactlyOnceKafkaSink", "KafkaSink", "create_sink"]
