"""The settings of a producer that speaks the protocol itself; whatever it does not know is left to librdkafka."""

from __future__ import annotations

from dataclasses import dataclass

from penstock_kafka.client._interfaces import ClientConfig
from penstock_kafka.client.broker import (
    CONNECTION_SETTINGS,
    YES_OR_NO,
    Settings,
    SettingsReader,
    known_settings,
)
from penstock_kafka.config import PROTOCOL_WITHOUT_EFFECT

__all__ = ["ProducerSettings"]

_COMPRESSION = ("none", "gzip", "snappy", "lz4", "zstd")
_ENDLESS_MS = 10 * 365 * 86_400_000


@dataclass(frozen=True, repr=False)
class ProducerSettings:
    """What a producer does. Holds secrets: never shown. Times in ms, sizes in bytes."""

    connection: Settings
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
    #: How long a missing topic may still be in creation.
    missing_s: float

    @classmethod
    def of(cls, config: ClientConfig, *, asked_for: bool = False) -> ProducerSettings | None:
        """``None`` for settings that only librdkafka knows, or has to judge. See :func:`known_settings`."""
        return known_settings(config, cls._taken_from, asked_for=asked_for)

    @classmethod
    def _taken_from(cls, given: SettingsReader) -> ProducerSettings:
        given.drop(PROTOCOL_WITHOUT_EFFECT["producer"])
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
            queue_bytes=given.number("queue.buffering.max.kbytes", 65_536) << 10,
            # A broker remembers the last five batches of an idempotent producer.
            in_flight=min(in_flight, 5) if idempotent else in_flight,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=min(given.number("request.timeout.ms", 30_000), delivery_timeout_ms),
            creates_topics=given.one_of("allow.auto.create.topics", "true", YES_OR_NO),
            missing_s=given.number("topic.metadata.propagation.max.ms", 10_000, 0) / 1000,
            connection=given.all_of(CONNECTION_SETTINGS),
        )
