"""The settings of a producer that speaks the protocol itself; whatever it does not know is left to librdkafka."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from penstock.errors import BadConfigurationError
from penstock_kafka.client._contracts import ClientConfig
from penstock_kafka.config import ClientSettings, canonical

__all__ = ["DirectSettings"]

_log = logging.getLogger("penstock.kafka")

#: Of the connections; see :meth:`penstock_kafka.config.ClientSettings.kafka_python`.
CONNECTION = """
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
WITHOUT_EFFECT = """
    api.version.fallback.ms api.version.request api.version.request.timeout.ms
    batch.num.messages broker.address.ttl broker.version.fallback client.rack delivery.report.only.error
    enable.metrics.push enable.random.seed linger.ms log.connection.close log.thread.name log_level
    message.copy.max.bytes metadata.max.age.ms queue.buffering.backpressure.threshold queue.buffering.max.messages
    reconnect.backoff.jitter.ms retry.backoff.max.ms socket.blocking.max.ms socket.keepalive.enable
    socket.nagle.disable statistics.interval.ms sticky.partitioning.linger.ms
    topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse
    """
YES_OR_NO = {"true": True, "false": False}
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_COMPRESSION = ("none", "gzip", "snappy", "lz4", "zstd")
_ENDLESS_MS = 10 * 365 * 86_400_000


@lru_cache(maxsize=8)
def _check_connection(connection: tuple[tuple[str, str], ...]) -> None:
    """Raises BadConfigurationError. Reads certificates: not again for every transaction's producer."""
    ClientSettings("admin", connection).kafka_python()


class Taker:
    """Settings, from which what is known is taken out. Raises ValueError or KeyError for values that can't be used."""

    def __init__(self, config: ClientConfig) -> None:
        self.left = {canonical(name): value for name, value in config.items()}

    def drop(self, names: str) -> None:
        """These have no effect."""
        for name in names.split():
            self.left.pop(name, None)

    def text(self, name: str, default: str) -> str:
        """As it is."""
        return self.left.pop(name, default)

    def number(self, name: str, default: int, least: int = 1) -> int:
        """A whole number from ``least`` on."""
        value = int(self.text(name, str(default)))
        if value < least:
            raise ValueError(name)
        return value

    def one_of(self, name: str, default: str, values: Mapping[str, Any]) -> Any:
        """What the text stands for."""
        return values[self.text(name, default).lower()]

    def all_of(self, names: str) -> tuple[tuple[str, str], ...]:
        """Those of these that are there."""
        return tuple(sorted((name, self.left.pop(name)) for name in names.split() if name in self.left))


class _Connecting(Protocol):
    @property
    def connection(self) -> tuple[tuple[str, str], ...]:
        """Settings of the connections."""


SettingsT = TypeVar("SettingsT", bound=_Connecting)


def known_to_us(config: ClientConfig, take: Callable[[Taker], SettingsT]) -> SettingsT | None:
    """What ``take`` makes of the settings; ``None`` if it does not know all of them, or not what they say."""
    given = Taker(config)
    try:
        settings = take(given)
        if dict(settings.connection).get("security.protocol", "plaintext").lower() not in _PROTOCOLS:
            raise ValueError("security.protocol")
        _check_connection(settings.connection)
    except (ValueError, KeyError, BadConfigurationError) as error:
        _log.info("librdkafka is used, which is slower: %s", type(error).__name__)
        return None
    if given.left:
        _log.info("librdkafka is used, which alone knows %s, and is slower", ", ".join(sorted(given.left)))
        return None
    return settings


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
        return known_to_us(config, cls._taken_from)

    @classmethod
    def _taken_from(cls, given: Taker) -> DirectSettings:
        given.drop(WITHOUT_EFFECT)
        given.one_of("partitioner", "murmur2_random", {"murmur2_random": None})
        given.number("retries", 1)
        acks: int = given.one_of("acks", "all", {"all": -1, "-1": -1, "1": 1, "0": 0})
        idempotent: bool = given.one_of("enable.idempotence", "true" if acks == -1 else "false", YES_OR_NO)
        transactional_id = given.text("transactional.id", "")
        if ((idempotent or transactional_id) and acks != -1) or (transactional_id and not idempotent):
            raise ValueError("acks")
        level = given.text("compression.level", "-1")
        transaction_timeout_ms = given.number("transaction.timeout.ms", 60_000)
        delivery_timeout_ms = given.number("delivery.timeout.ms", 300_000, 0) or _ENDLESS_MS
        if transactional_id:
            delivery_timeout_ms = min(delivery_timeout_ms, transaction_timeout_ms)
        in_flight = given.number("max.in.flight.requests.per.connection", 5)
        return cls(
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            acks=acks,
            idempotent=idempotent,
            compression=given.one_of("compression.type", "none", {name: name for name in _COMPRESSION}),
            compression_level=None if level == "-1" else int(level),
            batch_bytes=given.number("batch.size", 1_000_000),
            record_bytes=given.number("message.max.bytes", 1_000_000),
            queue_bytes=given.number("queue.buffering.max.kbytes", 65_536) * 1024,
            # A broker remembers the last five batches of an idempotent producer.
            in_flight=min(in_flight, 5) if idempotent else in_flight,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=min(given.number("request.timeout.ms", 30_000), delivery_timeout_ms),
            creates_topics=given.one_of("allow.auto.create.topics", "true", YES_OR_NO),
            missing_s=given.number("topic.metadata.propagation.max.ms", 10_000, 0) / 1000,
            connection=given.all_of(CONNECTION),
        )
