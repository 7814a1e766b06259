"""Chooses the client: the one that speaks the protocol itself where its compiled part loads, else librdkafka."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import BadConfigurationError
from penstock_kafka.client._interfaces import BatchProducer, ClientConfig, RangeConsumer
from penstock_kafka.client.codec import native_problem, native_usable
from penstock_kafka.config import CLIENTS, FORMER_CLIENTS, files_of

__all__ = ["ClientKind", "open_consumer", "open_producer"]

#: Environment variable that decides where ``auto`` is asked for.
SWITCH = "PENSTOCK_KAFKA_CLIENT"


def _speaks_protocol(implementation: str) -> bool:
    chosen = implementation
    if chosen == "auto":
        named = os.environ.get(SWITCH, "") or "auto"
        chosen = dict(FORMER_CLIENTS).get(named, named)
    if chosen == "auto":
        return native_usable()
    if chosen not in CLIENTS:
        raise BadConfigurationError(f"Kafka client '{chosen}' is unknown ({SWITCH}): write {', '.join(CLIENTS)}")
    if chosen == "protocol" and native_problem():
        raise BadConfigurationError(f"the Kafka client 'protocol' can't be used: {native_problem()}")
    return chosen == "protocol"


def open_consumer(config: ClientConfig, implementation: str = "auto") -> RangeConsumer:
    """Returns a consumer with settings ``config``, in librdkafka's spelling.

    ``implementation`` is ``protocol``, ``librdkafka`` or ``auto``: what ``PENSTOCK_KAFKA_CLIENT`` says, else protocol
    where it can be used (see :func:`native_problem`). Settings that only librdkafka knows get librdkafka all the same.
    Raises BadConfigurationError; does not wait for a broker.
    """
    if _speaks_protocol(implementation):
        # Here and not above: it brings kafka-python, which takes a while.
        from penstock_kafka.client.consumer import FetchSettings, ProtocolConsumer

        settings = FetchSettings.of(config, asked_for=implementation == "protocol")
        if settings is not None:
            return ProtocolConsumer(settings)
    from penstock_kafka.client.librdkafka import LibrdkafkaConsumer

    return LibrdkafkaConsumer(config)


def open_producer(config: ClientConfig, implementation: str = "auto") -> BatchProducer:
    """Returns a producer with settings ``config``; ``implementation`` and errors as for :func:`open_consumer`.

    With ``transactional.id`` it is one for transactions.
    """
    if _speaks_protocol(implementation):
        from penstock_kafka.client.producer import ProducerSettings, ProtocolProducer

        settings = ProducerSettings.of(config, asked_for=implementation == "protocol")
        if settings is not None:
            return ProtocolProducer(settings)
    from penstock_kafka.client.librdkafka import LibrdkafkaProducer

    return LibrdkafkaProducer(config)


@dataclass(frozen=True, repr=False)
class ClientKind:
    """How a client is opened: one that is kept will do for all that ask for its kind. Holds secrets: never shown."""

    settings: tuple[tuple[str, str], ...]
    implementation: str

    @classmethod
    def of(cls, config: ClientConfig, implementation: str) -> ClientKind:
        """Returns the kind of client that :func:`open_producer` or :func:`open_consumer` would open."""
        return cls(tuple(sorted(config.items())), implementation)

    def open_consumer(self) -> RangeConsumer:
        """Opens a consumer. Raises as :func:`open_consumer` does."""
        return open_consumer(dict(self.settings), self.implementation)

    def open_producer(self, more: Mapping[str, str] | None = None) -> BatchProducer:
        """Opens a producer, with ``more`` settings. Raises as :func:`open_producer` does."""
        return open_producer({**dict(self.settings), **(more or {})}, self.implementation)

    @property
    def files(self) -> list[str]:
        """Paths of the files that the client reads when it connects."""
        return files_of(self.settings)
