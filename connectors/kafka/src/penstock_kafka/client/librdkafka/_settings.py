"""Settings of librdkafka that are good for whole batches; what the user sets, under either name, goes first."""

from __future__ import annotations

import uuid
from typing import Any

from penstock_kafka.client._held_back import HeldBack
from penstock_kafka.client._interfaces import ClientConfig

__all__ = ["IDENTITY_INTERVAL_MS", "consumer_settings", "is_transactional", "producer_settings", "throttle_callback"]

#: Other names of the settings below.
_ALIASES = {
    "fetch.message.max.bytes": ("max.partition.fetch.bytes",),
    "linger.ms": ("queue.buffering.max.ms",),
    "acks": ("request.required.acks",),
}

_CONSUMER = {
    # librdkafka waits a second before it fills a full queue again, unless set otherwise.
    "fetch.queue.backoff.ms": "2",
    "queued.min.messages": "1000000",
    "queued.max.messages.kbytes": "16384",
    "fetch.message.max.bytes": str(8 << 20),
    # A range that ends in a control record ends with an answer without records, for which the broker waits this long.
    "fetch.wait.max.ms": "20",
    "fetch.error.backoff.ms": "100",
    # How long a missing topic may still be in creation: it was there when the range was planned.
    "topic.metadata.propagation.max.ms": "5000",
}

_CONSUMER_FIXED = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
}

#: Of the producer on confluent-kafka's class; the other one keeps no such queue.
_PRODUCER = {
    # A queue that is filled and emptied within the processor's cache costs half as much as a long one that is always
    # full (0.55 against 1.1 µs a record of 100 bytes). Rows come faster than they are sent: no need to linger.
    "linger.ms": "1",
    "batch.size": "1000000",
    "batch.num.messages": "100000",
    "queue.buffering.max.messages": "20000",
    "queue.buffering.max.kbytes": "65536",
    "enable.idempotence": "true",
    # How long a missing topic may still be in creation, such as one that the broker makes when it is first asked for.
    "topic.metadata.propagation.max.ms": "10000",
}

#: Registering a transactional id is a chain of requests, each tried first before its connection is there.
_TRANSACTIONAL = {"retry.backoff.ms": "1", "reconnect.backoff.ms": "1"}

#: How often librdkafka reports statistics, the only place that has a producer's identity.
IDENTITY_INTERVAL_MS = 100


#: While brokers are away librdkafka writes some twenty lines a second to the standard error. What matters of it comes
#: as an error as well.
_QUIET = {"log_level": "2"}


def _merge(config: ClientConfig, defaults: dict[str, str]) -> dict[str, str]:
    if "debug" not in config:
        defaults = {**_QUIET, **defaults}

    def is_set(name: str) -> bool:
        return name in config or any(alias in config for alias in _ALIASES.get(name, ()))

    return {**{name: value for name, value in defaults.items() if not is_set(name)}, **config}


def consumer_settings(config: ClientConfig) -> dict[str, str]:
    """``config`` with what a consumer of ranges needs."""
    # librdkafka wants a group's name to assign partitions, though it does not join one.
    defaults = {**_CONSUMER, "group.id": f"penstock-reader-{uuid.uuid4().hex}"}
    return {**_merge(config, defaults), **_CONSUMER_FIXED}


def is_transactional(config: ClientConfig) -> bool:
    """Returns whether a producer of ``config`` may use transactions."""
    return bool(config.get("transactional.id"))


def producer_settings(config: ClientConfig) -> dict[str, str]:
    """``config`` with what a producer of batches needs."""
    defaults = dict(_PRODUCER)
    acks = config.get("acks", config.get("request.required.acks", "all"))
    if acks not in ("all", "-1"):
        del defaults["enable.idempotence"]
    # Delivered records are not reported one by one: only failures are.
    fixed = {"delivery.report.only.error": "true"}
    if is_transactional(config):
        defaults.update(_TRANSACTIONAL)
        fixed["statistics.interval.ms"] = str(IDENTITY_INTERVAL_MS)
    return {**_merge(config, defaults), **fixed}


def throttle_callback(held_back: HeldBack) -> dict[str, Any]:
    """Returns the setting by which librdkafka says that a quota is used up."""

    def note(event: Any) -> None:
        if event.throttle_time > 0:
            held_back.note(f"broker {event.broker_id}", event.throttle_time)

    return {"throttle_cb": note}
