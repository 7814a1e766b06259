"""What users may set on the Kafka source and sink, declared as data, and the checked values made from it."""

from penstock_kafka.options._declared import SINK_OPTIONS, SOURCE_OPTIONS
from penstock_kafka.options._sink import SinkOptions
from penstock_kafka.options._source import SourceOptions
from penstock_kafka.options._subscription import Subscription

__all__ = ["SINK_OPTIONS", "SOURCE_OPTIONS", "SinkOptions", "SourceOptions", "Subscription"]
