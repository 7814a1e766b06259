"""Writing to Kafka."""

from penstock_kafka.sink._sink import KafkaAtLeastOnceSink, KafkaTransactionalSink, create_sink

__all__ = ["KafkaTransactionalSink", "KafkaAtLeastOnceSink", "create_sink"]
