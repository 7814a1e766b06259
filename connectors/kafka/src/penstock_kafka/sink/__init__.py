"""Writing to Kafka."""

from penstock_kafka.sink._sink import KafkaAtLeastOnceSink, KafkaTransactionalSink, check_sink, create_sink

__all__ = ["KafkaTransactionalSink", "KafkaAtLeastOnceSink", "check_sink", "create_sink"]
