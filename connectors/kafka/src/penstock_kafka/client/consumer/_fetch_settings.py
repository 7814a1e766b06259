"""The settings of a consumer that speaks the protocol itself; whatever it does not know is left to librdkafka."""

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
from penstock_kafka.client.codec import MOST_BATCH_BYTES
from penstock_kafka.config import PROTOCOL_WITHOUT_EFFECT

__all__ = ["FetchSettings"]

#: Settings that Penstock's reader gives to librdkafka's consumer.
_OF_THE_READER = ("enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof", "group.id")
_ISOLATION = {"read_committed": True, "read_uncommitted": False}


@dataclass(frozen=True, repr=False)
class FetchSettings:
    """What a consumer does. Holds secrets: never shown. Times in ms unless they end in ``_s``, sizes in bytes."""

    connection: Settings
    is_committed: bool
    partition_bytes: int
    answer_bytes: int
    queue_bytes: int
    most_batch_bytes: int
    min_bytes: int
    wait_ms: int
    missing_s: float
    request_timeout_ms: int

    @property
    def servers(self) -> str:
        """The brokers to begin with."""
        return dict(self.connection)["bootstrap.servers"]

    @classmethod
    def of(cls, config: ClientConfig, *, asked_for: bool = False) -> FetchSettings | None:
        """``None`` for settings that only librdkafka knows, or has to judge. See :func:`known_settings`."""
        return known_settings(config, cls._taken_from, asked_for=asked_for)

    @classmethod
    def _taken_from(cls, given: SettingsReader) -> FetchSettings:
        missing_ms = given.number("topic.metadata.propagation.max.ms", 5_000, 0)
        if given.text("client.rack", ""):
            raise ValueError("client.rack")  # reading from the nearest replica
        if given.one_of("allow.auto.create.topics", "false", YES_OR_NO):
            raise ValueError("allow.auto.create.topics")
        given.drop(_OF_THE_READER)
        given.drop(PROTOCOL_WITHOUT_EFFECT["consumer"])
        queue_bytes = given.number("queued.max.messages.kbytes", 16_384) << 10
        # Read before the settings of the connection, which include it.
        request_timeout_ms = given.number("socket.timeout.ms", 60_000)
        connection = given.all_of(CONNECTION_SETTINGS)
        return cls(
            is_committed=given.one_of("isolation.level", "read_committed", _ISOLATION),
            partition_bytes=given.number("max.partition.fetch.bytes", 8 << 20),
            answer_bytes=min(given.number("fetch.max.bytes", 50 << 20), queue_bytes),
            queue_bytes=queue_bytes,
            # librdkafka holds what it decompresses to that limit, too.
            most_batch_bytes=int(dict(connection).get("receive.message.max.bytes", MOST_BATCH_BYTES)),
            min_bytes=given.number("fetch.min.bytes", 1),
            # 0 would be asking without a pause.
            wait_ms=max(1, given.number("fetch.wait.max.ms", 20, 0)),
            missing_s=missing_ms / 1000,
            request_timeout_ms=request_timeout_ms,
            connection=connection,
        )
