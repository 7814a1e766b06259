"""The producer that speaks Kafka's protocol itself."""

from penstock_kafka.client.producer._producer import ProtocolProducer
from penstock_kafka.client.producer._settings import ProducerSettings

__all__ = ["ProducerSettings", "ProtocolProducer"]
