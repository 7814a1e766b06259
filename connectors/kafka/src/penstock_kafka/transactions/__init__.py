"""Kafka transactions that one process writes and another one ends."""

from penstock_kafka.transactions._coordinators import (
    Coordinators,
    Ended,
    OpenTransaction,
    Proof,
    TransactionRef,
    coordinators,
)
from penstock_kafka.transactions._names import DEFAULT_PREFIX, QueryPrefix
from penstock_kafka.transactions._producers import ProducerPool, ReadyProducer, producer_pool
from penstock_kafka.transactions._slots import Slot, SlotLender

__all__ = [
    "DEFAULT_PREFIX",
    "Coordinators",
    "Ended",
    "OpenTransaction",
    "ProducerPool",
    "Proof",
    "QueryPrefix",
    "ReadyProducer",
    "Slot",
    "SlotLender",
    "TransactionRef",
    "coordinators",
    "producer_pool",
]
