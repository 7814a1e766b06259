"""Settings of librdkafka that have no effect on the client that speaks the protocol itself."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.printable import get_logger
from penstock_kafka.config._librdkafka import canonical
from penstock_kafka.config._translate import Role

__all__ = ["PROTOCOL_WITHOUT_EFFECT", "report_without_effect"]

_log = get_logger("penstock.kafka")
#: How librdkafka fills its queue, finds out what brokers can do, and what it writes to its log: there is no such queue
#: here. A batch is sent when it is full or when nothing else is in flight.
_OF_EVERY_CLIENT = """
    api.version.fallback.ms api.version.request api.version.request.timeout.ms
    batch.num.messages broker.address.ttl broker.version.fallback client.rack delivery.report.only.error
    enable.metrics.push enable.random.seed linger.ms log.connection.close log.thread.name log_level
    message.copy.max.bytes metadata.max.age.ms queue.buffering.backpressure.threshold queue.buffering.max.messages
    reconnect.backoff.jitter.ms retry.backoff.max.ms sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin socket.blocking.max.ms socket.keepalive.enable
    socket.nagle.disable statistics.interval.ms sticky.partitioning.linger.ms
    topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse
    """
_OF_CONSUMERS = "check.crcs fetch.error.backoff.ms fetch.queue.backoff.ms queued.min.messages"

#: By role, the settings in librdkafka's spelling.
PROTOCOL_WITHOUT_EFFECT: Mapping[Role, frozenset[str]] = {
    "consumer": frozenset(f"{_OF_EVERY_CLIENT} {_OF_CONSUMERS}".split()),
    "producer": frozenset(_OF_EVERY_CLIENT.split()),
}
_reported: set[str] = set()


def report_without_effect(kafka: Mapping[str, str], role: Role, client: str, *more: str) -> None:
    """Logs, once in a process, which of the user's settings (without ``kafka.``) have no effect on ``client``: these
    and the options ``more``.
    """
    if client == "librdkafka":
        return
    # A consumer reads from the nearest replica if it is set, and librdkafka does it then.
    names = [name for name in kafka if canonical(name) in PROTOCOL_WITHOUT_EFFECT[role] - {"client.rack"}]
    text = ", ".join([*more, *(f"kafka.{name}" for name in sorted(names))])
    if text and text not in _reported:
        _reported.add(text)
        _log.warning("no effect unless client=librdkafka: %s", text)
