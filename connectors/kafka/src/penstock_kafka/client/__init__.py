"""Kafka clients that move Arrow batches: see :mod:`penstock_kafka.client._contracts`."""

from penstock_kafka.client._contracts import (
    DELIVERY_SCHEMA,
    HEADERS_TYPE,
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    RECORD_SCHEMA,
    BatchProducer,
    ClientConfig,
    DeliveryError,
    Fetched,
    OffsetOutOfRangeError,
    PartitionRange,
    ProducerFencedError,
    ProducerIdentity,
    RangeConsumer,
    TransientClientError,
)
from penstock_kafka.client._open import native_problem, open_consumer, open_producer

__all__ = [
    "DELIVERY_SCHEMA",
    "HEADERS_TYPE",
    "MAX_BATCH_BYTES",
    "MAX_BATCH_ROWS",
    "RECORD_SCHEMA",
    "BatchProducer",
    "ClientConfig",
    "DeliveryError",
    "Fetched",
    "OffsetOutOfRangeError",
    "PartitionRange",
    "ProducerFencedError",
    "ProducerIdentity",
    "RangeConsumer",
    "TransientClientError",
    "native_problem",
    "open_consumer",
    "open_producer",
]
