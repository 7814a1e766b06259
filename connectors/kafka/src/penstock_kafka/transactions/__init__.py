"""Kafka transactions that one process writes and another one ends.

:mod:`penstock_kafka.transactions._coordinators`, which ends them, is imported by the driver alone.
"""

from penstock_kafka.transactions._names import DEFAULT_PREFIX, FIRST_EDITION, QueryPrefix
from penstock_kafka.transactions._producers import ProducerPool, ReadyProducer, producer_pool
from penstock_kafka.transactions._refs import Ended, OpenTransaction, Partition, Proof, TransactionRef
from penstock_kafka.transactions._slots import Slot, SlotLender, forget_slots

__all__ = [
    "DEFAULT_PREFIX",
    "FIRST_EDITION",
    "Ended",
    "OpenTransaction",
    "Partition",
    "ProducerPool",
    "Proof",
    "QueryPrefix",
    "ReadyProducer",
    "Slot",
    "SlotLender",
    "TransactionRef",
    "forget_slots",
    "producer_pool",
]
