"""The consumer that speaks Kafka's protocol itself."""

from penstock_kafka.client.consumer._consumer import ProtocolConsumer
from penstock_kafka.client.consumer._fetch_settings import FetchSettings

__all__ = ["FetchSettings", "ProtocolConsumer"]
