"""The Java client's settings that librdkafka has under another name, in another unit, or not at all.

Those of certificates and of authentication, which depend on each other, are in ``_stores`` and ``_sasl``.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock_kafka.config._rules import Rule, at_most, only, refused, renamed, unused, whole
from penstock_kafka.config._sasl import SASL_SETTINGS
from penstock_kafka.config._stores import STORE_SETTINGS

__all__ = ["JAVA_NAMES", "JAVA_RULES"]

#: Beyond this librdkafka gives up a request anyway (the upper end of ``socket.timeout.ms``).
_LONGEST_REQUEST_MS = 300_000

_WITHOUT_EFFECT = """
    default.api.timeout.ms internal.throw.on.fetch.stable.offset.unsupported max.block.ms metadata.max.idle.ms
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms share.acquire.mode
    socket.connection.setup.timeout.max.ms ssl.keymanager.algorithm ssl.secure.random.implementation
    ssl.trustmanager.algorithm
"""
_PARTITIONER = "is a class of the Java client's; use the option 'partitioner': murmur2 (as Java's), round-robin, task"


def _milliseconds(value: str, given: Mapping[str, str]) -> Mapping[str, str]:
    """Java's covers the wait for an answer, which librdkafka has as a setting of the socket."""
    text = at_most(whole(value), _LONGEST_REQUEST_MS)
    return {"request.timeout.ms": text, "socket.timeout.ms": given.get("socket.timeout.ms", text)}


def _metadata_age(value: str, given: Mapping[str, str]) -> Mapping[str, str]:
    """Java refreshes at this age; librdkafka forgets at it, and refreshes on an interval of another name."""
    if "topic.metadata.refresh.interval.ms" in given:
        return {"metadata.max.age.ms": value}
    return {"topic.metadata.refresh.interval.ms": at_most(whole(value), 3_600_000)}


def _buffer_memory(value: str, given: Mapping[str, str]) -> Mapping[str, str]:
    return {"queue.buffering.max.kbytes": str(max(1, whole(value) // 1024))}


def _batch_size(value: str, given: Mapping[str, str]) -> Mapping[str, str]:
    """0, which turns batches off in Java, is out of librdkafka's range: 1 does the same."""
    return {"batch.size": str(max(1, whole(value)))}


def _socket_buffer(name: str) -> Rule:
    """-1 is the system's default in Java, 0 in librdkafka."""

    def rule(value: str, given: Mapping[str, str]) -> Mapping[str, str]:
        return {name: str(max(0, whole(value)))}

    return rule


def _compression_level(codec: str) -> Rule:
    """Returns the rule for a level: Java has one for each codec, librdkafka one for the chosen codec."""

    def rule(value: str, given: Mapping[str, str]) -> Mapping[str, str] | None:
        if given.get("compression.type", "none").lower() != codec:
            return None
        return {"compression.level": at_most(whole(value), 12)}

    return rule


def _cipher_suites(value: str, given: Mapping[str, str]) -> Mapping[str, str]:
    if "," in value or "_WITH_" in value:
        raise ValueError("takes OpenSSL's names separated by colons, as in ECDHE-RSA-AES256-GCM-SHA384:AES128-SHA256")
    return {"ssl.cipher.suites": value}


def _host_names(value: str, given: Mapping[str, str]) -> Mapping[str, str]:
    return {"ssl.endpoint.identification.algorithm": value.lower() or "none"}


JAVA_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_WITHOUT_EFFECT.split(), unused),
    "batch.size": _batch_size,
    "bootstrap.controllers": refused("can't be used: write the brokers into 'kafka.bootstrap.servers'"),
    "buffer.memory": _buffer_memory,
    "compression.gzip.level": _compression_level("gzip"),
    "compression.lz4.level": _compression_level("lz4"),
    "compression.zstd.level": _compression_level("zstd"),
    "config.providers": refused("runs classes of the Java client's: look the values up in your job, and set them here"),
    "exclude.internal.topics": only(
        "true", "can't be switched off: name the internal topics in the option 'subscribe' or 'assign'"
    ),
    "fetch.max.wait.ms": renamed("fetch.wait.max.ms"),
    "interceptor.classes": refused("is not supported: interceptors may change records; use columns of the DataFrame"),
    "key.deserializer": refused("is not supported: keys come as bytes; use the option 'key.format' to decode them"),
    "key.serializer": refused("is not supported: keys are written as bytes; use the option 'key.format' to encode"),
    "max.request.size": renamed("message.max.bytes"),
    "metadata.max.age.ms": _metadata_age,
    "partitioner.class": refused(_PARTITIONER),
    "partitioner.ignore.keys": only("false", "is not supported: use the option 'partitioner' with round-robin"),
    "receive.buffer.bytes": _socket_buffer("socket.receive.buffer.bytes"),
    "request.timeout.ms": _milliseconds,
    "security.providers": refused("names classes of a JVM: OpenSSL's providers are in 'kafka.ssl.providers'"),
    "send.buffer.bytes": _socket_buffer("socket.send.buffer.bytes"),
    "ssl.cipher.suites": _cipher_suites,
    "ssl.enabled.protocols": only(
        "TLSv1.2 TLSv1.3", "can't be translated: set MinProtocol and MaxProtocol in OpenSSL's configuration file"
    ),
    "ssl.endpoint.identification.algorithm": _host_names,
    "ssl.engine.factory.class": refused("is a class of a JVM: give certificates as PEM in 'kafka.ssl.ca.location' …"),
    "ssl.protocol": only(
        "TLS TLSv1.2 TLSv1.3", "can't be translated: set MinProtocol and MaxProtocol in OpenSSL's configuration file"
    ),
    "ssl.provider": refused("is one of a JVM: OpenSSL's providers are in 'kafka.ssl.providers'"),
    "transaction.two.phase.commit.enable": only(
        "false", "is not needed: the option 'delivery' with exactly-once does it with every broker"
    ),
    "value.deserializer": refused("is not supported: values come as bytes; use the option 'value.format' to decode"),
    "value.serializer": refused("is not supported: values are written as bytes; use the option 'value.format'"),
}

JAVA_NAMES = frozenset(JAVA_RULES) | SASL_SETTINGS | STORE_SETTINGS
