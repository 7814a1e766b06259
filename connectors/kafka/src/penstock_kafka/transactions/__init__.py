"""Kafka transactions that one process writes and another one ends.

The driver ends them with :class:`penstock_kafka.client.broker.Coordinators`.
"""

from penstock_kafka.transactions._names import DEFAULT_PREFIX, FIRST_EDITION, QueryPrefix
from penstock_kafka.transactions._producers import ProducerPool, ReadyProducer, acquire_pool, release_pool
from penstock_kafka.transactions._slots import Slot, SlotLender, forget_slots

__all__ = [
    "DEFAULT_PREFIX",
    "FIRST_EDITION",
    "ProducerPool",
    "QueryPrefix",
    "ReadyProducer",
    "Slot",
    "SlotLender",
    "acquire_pool",
    "forget_slots",
    "release_pool",
]
