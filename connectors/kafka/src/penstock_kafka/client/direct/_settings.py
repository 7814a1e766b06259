"""The settings of a producer that speaks the protocol itself; whatever it does not know is left to librdkafka."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penstock.errors import BadConfigurationError
from penstock_kafka.client._contracts import ClientConfig
from penstock_kafka.config import ClientSettings, canonical

__all__ = ["DirectSettings"]

_log = logging.getLogger("penstock.kafka")

#: Of the connections; see :meth:`penstock_kafka.config.ClientSettings.kafka_python`.
_CONNECTION = """
    bootstrap.servers client.dns.lookup client.id connections.max.idle.ms enable.ssl.certificate.verification
    https.ca.location https.ca.pem receive.message.max.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    retry.backoff.ms sasl.kerberos.service.name sasl.mechanism sasl.oauthbearer.client.id
    sasl.oauthbearer.client.secret sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
    sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.oauthbearer.scope
    sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol socket.receive.buffer.bytes
    socket.send.buffer.bytes socket.timeout.ms ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem
    ssl.cipher.suites ssl.crl.location ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password
    ssl.key.pem ssl.keystore.location ssl.keystore.password topic.metadata.refresh.interval.ms
    """
#: How librdkafka fills its queue, finds out what brokers can do, and what it writes to its log: there is no such queue
#: here. A batch is sent when it is full or when nothing else is on its way.
_WITHOUT_EFFECT = """
    api.version.fallback.ms api.version.request api.version.request.timeout.ms
    batch.num.messages broker.address.ttl broker.version.fallback client.rack delivery.report.only.error
    enable.metrics.push enable.random.seed linger.ms log.connection.close log.thread.name log_level
    message.copy.max.bytes metadata.max.age.ms queue.buffering.backpressure.threshold queue.buffering.max.messages
    reconnect.backoff.jitter.ms retry.backoff.max.ms socket.blocking.max.ms socket.keepalive.enable
    socket.nagle.disable statistics.interval.ms sticky.partitioning.linger.ms
    topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse
    """
_YES_OR_NO = {"true": True, "false": False}
_COMPRESSION = ("none", "gzip", "snappy", "lz4", "zstd")
_ENDLESS_MS = 10 * 365 * 86_400_000


@lru_cache(maxsize=8)
def _check_connection(connection: tuple[tuple[str, str], ...]) -> None:
    """Raises BadConfigurationError. Reads certificates: not again for every transaction's producer."""
    ClientSettings("producer", connection).kafka_python()


@dataclass(frozen=True, repr=False)
class DirectSettings:
    """What a producer does. Holds secrets: never shown. Times in ms, sizes in bytes."""

    connection: tuple[tuple[str, str], ...]
    transactional_id: str
    transaction_timeout_ms: int
    acks: int
    idempotent: bool
    compression: str
    compression_level: int | None
    batch_bytes: int
    record_bytes: int
    queue_bytes: int
    in_flight: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    #: Whether brokers may make topics that are written to, where they do that.
    creates_topics: bool
    #: How long a missing topic may still be on its way, such as one that is being made.
    missing_s: float

    @classmethod
    def of(cls, config: ClientConfig) -> DirectSettings | None:
        """``None`` for settings that only librdkafka knows, or has to judge."""
        given = {canonical(name): value for name, value in config.items()}
        try:
            settings = cls._taken_from(given)
            _check_connection(settings.connection)
        except (ValueError, KeyError, BadConfigurationError) as error:
            _log.info("records are sent through librdkafka, which is slower: %s", type(error).__name__)
            return None
        if given:
            _log.info("records are sent through librdkafka, which alone knows %s, and slower", ", ".join(sorted(given)))
            return None
        return settings

    @classmethod
    def _taken_from(cls, given: dict[str, str]) -> DirectSettings:
        """Takes what it knows out of ``given``. Raises ValueError or KeyError for values that it can't use."""

        def take(name: str, default: str) -> str:
            return given.pop(name, default)

        def number(name: str, default: int, least: int = 1) -> int:
            value = int(take(name, str(default)))
            if value < least:
                raise ValueError(name)
            return value

        def one_of(name: str, default: str, values: Mapping[str, Any]) -> Any:
            return values[take(name, default).lower()]

        for name in _WITHOUT_EFFECT.split():
            take(name, "")
        one_of("partitioner", "murmur2_random", {"murmur2_random": None})
        number("retries", 1)
        acks: int = one_of("acks", "all", {"all": -1, "-1": -1, "1": 1, "0": 0})
        idempotent: bool = one_of("enable.idempotence", "true" if acks == -1 else "false", _YES_OR_NO)
        transactional_id = take("transactional.id", "")
        if ((idempotent or transactional_id) and acks != -1) or (transactional_id and not idempotent):
            raise ValueError("acks")
        compression: str = one_of("compression.type", "none", {name: name for name in _COMPRESSION})
        level = take("compression.level", "-1")
        transaction_timeout_ms = number("transaction.timeout.ms", 60_000)
        delivery_timeout_ms = number("delivery.timeout.ms", 300_000, 0) or _ENDLESS_MS
        if transactional_id:
            delivery_timeout_ms = min(delivery_timeout_ms, transaction_timeout_ms)
        in_flight = number("max.in.flight.requests.per.connection", 5)
        return cls(
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            acks=acks,
            idempotent=idempotent,
            compression=compression,
            compression_level=None if level == "-1" else int(level),
            batch_bytes=number("batch.size", 1_000_000),
            record_bytes=number("message.max.bytes", 1_000_000),
            queue_bytes=number("queue.buffering.max.kbytes", 65_536) * 1024,
            # A broker remembers the last five batches of an idempotent producer.
            in_flight=min(in_flight, 5) if idempotent else in_flight,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=min(number("request.timeout.ms", 30_000), delivery_timeout_ms),
            creates_topics=one_of("allow.auto.create.topics", "true", _YES_OR_NO),
            missing_s=number("topic.metadata.propagation.max.ms", 10_000, 0) / 1000,
            connection=tuple(sorted((name, given.pop(name)) for name in _CONNECTION.split() if name in given)),
        )

    def kafka_python(self) -> Mapping[str, Any]:
        """Arguments of the connections. Made where they are opened: they hold what can't be pickled."""
        return ClientSettings("producer", self.connection).kafka_python()
