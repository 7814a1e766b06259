"""A Kafka broker to develop and to test against, and a toolbox to look into one. Needs Java, or a container engine."""

from penstock_kafka.dev._cluster import KafkaCluster
from penstock_kafka.dev._server import KafkaDevServer, kafka_server
from penstock_kafka.dev._toolbox import Isolation, KafkaToolbox, ReadRecord

__all__ = ["Isolation", "KafkaCluster", "KafkaDevServer", "KafkaToolbox", "ReadRecord", "kafka_server"]
