"""Kafka clients that move Arrow batches, and what they say to brokers. Two contracts, held by two implementations.

The rooms: ``codec`` (record batches and Arrow) and ``broker`` (requests and connections) are the ground; ``consumer``
and ``producer`` stand on them and hold the contracts; ``librdkafka`` holds them once more, by itself. What is not about
records (topics, offsets, transactions) is asked through ``broker`` whichever client moves records. This package imports
none of those that bring a client library along before a client is opened.
"""

from penstock_kafka.client._interfaces import (
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
    TopicReplacedError,
    TransientClientError,
)
from penstock_kafka.client._open import ClientKind, open_consumer, open_producer
from penstock_kafka.client._transactions import Ended, OpenTransaction, Partition, Proof, TransactionRef
from penstock_kafka.client.codec import native_problem

__all__ = [
    "DELIVERY_SCHEMA",
    "HEADERS_TYPE",
    "MAX_BATCH_BYTES",
    "MAX_BATCH_ROWS",
    "RECORD_SCHEMA",
    "BatchProducer",
    "ClientConfig",
    "ClientKind",
    "DeliveryError",
    "Ended",
    "Fetched",
    "OffsetOutOfRangeError",
    "OpenTransaction",
    "Partition",
    "PartitionRange",
    "ProducerFencedError",
    "ProducerIdentity",
    "Proof",
    "RangeConsumer",
    "TopicReplacedError",
    "TransactionRef",
    "TransientClientError",
    "native_problem",
    "open_consumer",
    "open_producer",
]
