"""What clients report, in librdkafka's terms, and which of our errors it means."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import BadConfigurationError, DataLostError, FatalError, PenstockError
from penstock_kafka.client._contracts import (
    ClientConfig,
    DeliveryError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    TransientClientError,
)

__all__ = ["Problem", "bad_setting", "consumer_error", "delivery_error", "producer_error"]


@dataclass(frozen=True)
class Problem:
    """An error: ``code`` is librdkafka's name for it (``_TRANSPORT``); the rest where known."""

    code: str
    text: str
    topic: str = ""
    partition: int = -1
    offset: int = -1
    size: int = 0
    fatal: bool = False
    retriable: bool = False


_NOT_HELD = {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION"}
_MISSING = {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID", "TOPIC_EXCEPTION"}
_NOT_AUTHENTICATED = {"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"}
_UNREADABLE = {"_BAD_MSG", "_BAD_COMPRESSION", "_NOT_IMPLEMENTED", "_UNSUPPORTED_FEATURE", "MSG_SIZE_TOO_LARGE"}
_FENCED = {
    "_FENCED",
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_TXN_STATE",
}
_TIMED_OUT = {"_TIMED_OUT", "_MSG_TIMED_OUT", "_TIMED_OUT_QUEUE", "REQUEST_TIMED_OUT", "_ALL_BROKERS_DOWN"}

_ACL_NEEDED = {
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "Write and Describe on the transactional id",
    "CLUSTER_AUTHORIZATION_FAILED": "IdempotentWrite on the cluster, or Write on the topic",
    "GROUP_AUTHORIZATION_FAILED": "Read on the consumer group",
}


#: Parts of the names of settings whose values are nobody's business.
_SECRET = ("password", "secret", "jaas", "pem", "token", "oauthbearer.config")


def bad_setting(problem: Problem, settings: ClientConfig) -> BadConfigurationError:
    """A client could not be made. ``problem.topic`` names the setting, if it is a single one."""
    if problem.topic:
        return BadConfigurationError(
            f"the Kafka client does not know the setting '{problem.topic}', or does not accept its value"
        )
    text = problem.text
    for name, value in settings.items():
        if value and any(part in name for part in _SECRET):
            text = text.replace(value, "***")
    return BadConfigurationError(f"the Kafka client refuses its settings: {text}")


def _where(problem: Problem) -> str:
    return f"topic '{problem.topic}'" + (f" partition {problem.partition}" if problem.partition >= 0 else "")


def consumer_error(problem: Problem) -> PenstockError | None:
    """What a consumer raises; ``None`` for what librdkafka mends by itself, or what concerns a consumer group."""
    code = problem.code
    if code in _NOT_HELD:
        return OffsetOutOfRangeError(problem.topic, problem.partition, problem.offset)
    if code in _MISSING:
        return DataLostError(f"{_where(problem)} does not exist, or not any more ({code})")
    if code in _NOT_AUTHENTICATED:
        return BadConfigurationError(f"the Kafka broker refuses the credentials: {problem.text}")
    if code in ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"):
        return BadConfigurationError(f"not authorized to read {_where(problem)}: it needs Read and Describe ({code})")
    if problem.fatal or code == "_FATAL" or code in _UNREADABLE:
        at = f"{_where(problem)} offset {problem.offset}: " if problem.topic else ""
        return FatalError(f"the Kafka client can't go on: {at}{problem.text} ({code})")
    return None


def delivery_error(problem: Problem) -> PenstockError:
    """What the first record that was not delivered means."""
    if problem.code in _FENCED:
        return ProducerFencedError(f"a record of {_where(problem)} was refused: {problem.text} ({problem.code})")
    if problem.code in _TIMED_OUT:
        return TransientClientError(
            f"a record of {_where(problem)} was not acknowledged within delivery.timeout.ms: {problem.text}"
        )
    if problem.fatal:
        return FatalError(f"the Kafka producer can't go on: {problem.text} ({problem.code})")
    return DeliveryError(
        f"a record of {problem.size} bytes for {_where(problem)} was refused: {problem.text} ({problem.code})",
        problem.code,
    )


def producer_error(problem: Problem, doing: str) -> PenstockError:
    """What a failed call of the transactional interface means. ``doing`` says what it was for, as "to …"."""
    code, text = problem.code, problem.text
    if code in _FENCED:
        return ProducerFencedError(f"failed {doing}: {text} ({code})")
    if code == "INVALID_TRANSACTION_TIMEOUT":
        return BadConfigurationError(
            "transaction.timeout.ms is more than the broker's transaction.max.timeout.ms: set a smaller one"
        )
    if code in _NOT_AUTHENTICATED:
        return BadConfigurationError(f"the Kafka broker refuses the credentials: {text}")
    if code in _ACL_NEEDED:
        return BadConfigurationError(f"not authorized {doing}: it needs {_ACL_NEEDED[code]} ({code})")
    if problem.fatal:
        return FatalError(f"failed {doing}: {text} ({code})")
    if problem.retriable or code in _TIMED_OUT or code == "_TRANSPORT":
        return TransientClientError(f"failed {doing}: {text} ({code})")
    return FatalError(f"failed {doing}: {text} ({code})")
