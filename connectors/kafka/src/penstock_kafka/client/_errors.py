"""What the clients report, under Kafka's own names, and which of our errors it means.

The one table of error codes. It imports no client library: both clients translate what they get into it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Concatenate, ParamSpec, TypeVar

from penstock.errors import BadConfigurationError, DataLostError, FatalError, PenstockError, RetriableError
from penstock_kafka._error_codes import CREDENTIALS, NO_TOPIC, NOT_PERMITTED
from penstock_kafka.client._interfaces import (
    ClientConfig,
    DeliveryError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    TopicReplacedError,
    TransientClientError,
)
from penstock_kafka.config import hide, is_secret_setting

__all__ = [
    "LACKING",
    "MISSING",
    "MOVING",
    "NOT_AUTHENTICATED",
    "TOPIC_REPLACED",
    "Code",
    "Problem",
    "bad_setting",
    "consumer_error",
    "delivery_error",
    "is_refusal_by_tls",
    "name_of",
    "producer_error",
    "request_error",
]


class Code(IntEnum):
    """The error codes of Kafka's protocol that mean something here (``org.apache.kafka.common.protocol.Errors``)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    UNKNOWN_MEMBER_ID = 25
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    NOT_CONTROLLER = 41
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    GROUP_ID_NOT_FOUND = 69
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    OFFSET_NOT_AVAILABLE = 78
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    TRANSACTIONAL_ID_NOT_FOUND = 105


def name_of(code: int, otherwise: str) -> str:
    """Kafka's name for an error code; ``otherwise`` for one that means nothing here."""
    return Code(code).name if code in Code._value2member_map_ else otherwise


@dataclass(frozen=True)
class Problem:
    """An error that a client reports, with where it happened, as far as that is known.

    ``code`` is Kafka's name for it. One that begins with an underscore is no broker's answer but what a client noticed
    itself; it is librdkafka's name (``_TRANSPORT``).
    """

    code: str
    text: str
    topic: str = ""
    partition: int = -1
    offset: int = -1
    size: int = 0
    fatal: bool = False
    retriable: bool = False


#: A broker is busy, or another broker leads or coordinates by now: the same question may be answered soon.
MOVING = frozenset(
    {
        *("LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"),
        *("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "NOT_CONTROLLER"),
        *("BROKER_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE", "NETWORK_EXCEPTION", "REQUEST_TIMED_OUT"),
        *("OFFSET_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR"),
    }
)
MISSING = frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID"})
NOT_AUTHENTICATED = frozenset({"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"})
#: OpenSSL's words for a certificate that one side does not take, in the spelling of either client.
_TLS_REFUSALS = re.compile(
    r"certificate.verify.failed|alert.(bad.certificate|certificate.\w+|unknown.ca|unsupported.certificate|access.denied)",
    re.IGNORECASE,
)
#: Ours: the brokers do not take requests that are needed.
LACKING = "_LACKING"
#: Ours: another topic has the name by now.
TOPIC_REPLACED = "_TOPIC_REPLACED"
_NOT_HELD = {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION"}
_UNREADABLE = {"_BAD_MSG", "_BAD_COMPRESSION", "_NOT_IMPLEMENTED", "_UNSUPPORTED_FEATURE", "MESSAGE_TOO_LARGE"}
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
_ACL_NEEDED_TO_ASK = {
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "Write and Describe on the transactional id",
    "TOPIC_AUTHORIZATION_FAILED": "Describe and Read on the topic",
    "GROUP_AUTHORIZATION_FAILED": "Describe and Read on the consumer group",
}
_Arguments = ParamSpec("_Arguments")
_ErrorT = TypeVar("_ErrorT", bound=PenstockError | None)
_NO_KERBEROS = (
    "The wheels of confluent-kafka have no Kerberos: install it from source with librdkafka and libsasl2 "
    "(pip install --no-binary confluent-kafka confluent-kafka), or use another sasl.mechanism"
)


def is_refusal_by_tls(text: str) -> bool:
    """Returns whether a connection failed because one side does not take the other's certificate."""
    return _TLS_REFUSALS.search(text) is not None


def bad_setting(problem: Problem, settings: ClientConfig) -> BadConfigurationError:
    """A client could not be made. ``problem.topic`` names the setting, if it is a single one."""
    if problem.topic:
        return BadConfigurationError(
            f"the Kafka client does not know the setting '{problem.topic}', or does not accept its value"
        )
    secrets = [value for name, value in settings.items() if is_secret_setting(name)]
    text = f"the Kafka client refuses its settings: {hide(problem.text, secrets)}"
    return BadConfigurationError(f"{text}. {_NO_KERBEROS}" if "GSSAPI" in text else text)


def _coded(make: Callable[Concatenate[Problem, _Arguments], _ErrorT]) -> Callable[..., _ErrorT]:
    """Gives what ``make`` returns the code of the situation, where the client's own code for the problem tells it."""

    @functools.wraps(make)
    def coded(problem: Problem, *args: _Arguments.args, **given: _Arguments.kwargs) -> _ErrorT:
        made = make(problem, *args, **given)
        code = problem.code
        situation = (
            CREDENTIALS
            if code in NOT_AUTHENTICATED
            else NOT_PERMITTED
            if code.endswith("AUTHORIZATION_FAILED")
            else NO_TOPIC
            if code in MISSING
            else ""
        )
        if made is not None and situation:
            made.with_code(situation)
        return made

    return coded


def _where(problem: Problem) -> str:
    return f"topic '{problem.topic}'" + (f" partition {problem.partition}" if problem.partition >= 0 else "")


@_coded
def consumer_error(problem: Problem) -> PenstockError | None:
    """Returns what a consumer raises; ``None`` for what the client repairs by itself, or what concerns a consumer
    group.
    """
    code = problem.code
    if code in _NOT_HELD:
        return OffsetOutOfRangeError(problem.topic, problem.partition, problem.offset)
    if code == TOPIC_REPLACED:
        return TopicReplacedError(problem.topic, problem.text)
    if code in MISSING or code == "INVALID_TOPIC_EXCEPTION":
        return DataLostError(f"{_where(problem)} does not exist, or not any more ({code})")
    if code in NOT_AUTHENTICATED:
        return BadConfigurationError(f"the Kafka broker refuses the credentials: {problem.text}")
    if code in ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"):
        return BadConfigurationError(f"not authorized to read {_where(problem)}: it needs Read and Describe ({code})")
    if problem.fatal or code == "_FATAL" or code in _UNREADABLE:
        at = f"{_where(problem)} offset {problem.offset}: " if problem.topic else ""
        return FatalError(f"the Kafka client can't continue: {at}{problem.text} ({code})")
    return None


@_coded
def delivery_error(problem: Problem) -> PenstockError:
    """Returns what the first record that was not delivered means."""
    if problem.code in _FENCED:
        return ProducerFencedError(f"a record of {_where(problem)} was refused: {problem.text} ({problem.code})")
    if problem.code in _TIMED_OUT:
        return TransientClientError(
            f"a record of {_where(problem)} was not acknowledged within delivery.timeout.ms: {problem.text}"
        )
    if problem.fatal:
        return FatalError(f"the Kafka producer can't continue: {problem.text} ({problem.code})")
    return DeliveryError(
        f"a record of {problem.size} bytes for {_where(problem)} was refused: {problem.text} ({problem.code})",
        problem.code,
    )


@_coded
def producer_error(problem: Problem, doing: str) -> PenstockError:
    """Returns what a failed call of the transactional interface means. ``doing`` says what it was for, as "to …"."""
    code, text = problem.code, problem.text
    if code in MISSING:
        return DeliveryError(f"{_where(problem)} can't be written to: {text} ({code})", code)
    if code in _FENCED:
        return ProducerFencedError(f"failed {doing}: {text} ({code})")
    if code == "INVALID_TRANSACTION_TIMEOUT":
        return BadConfigurationError(
            "transaction.timeout.ms is more than the broker's transaction.max.timeout.ms: set a smaller one"
        )
    if code in NOT_AUTHENTICATED:
        return BadConfigurationError(f"the Kafka broker refuses the credentials: {text}")
    if code in _ACL_NEEDED:
        return BadConfigurationError(f"not authorized {doing}: it needs {_ACL_NEEDED[code]} ({code})")
    if problem.fatal:
        return FatalError(f"failed {doing}: {text} ({code})")
    if problem.retriable or code in _TIMED_OUT or code == "_TRANSPORT":
        return TransientClientError(f"failed {doing}: {text} ({code})")
    return FatalError(f"failed {doing}: {text} ({code})")


@_coded
def request_error(problem: Problem, what: str, servers: str, patience_s: float) -> PenstockError:
    """Returns what a question means that brokers refused, or did not answer for as long as patience lasted.

    ``what`` is a verb with its object, as in "list topics".
    """
    code, text = problem.code, problem.text
    if code == LACKING:
        return BadConfigurationError(f"the Kafka brokers at {servers} {text}")
    if code in NOT_AUTHENTICATED:
        return BadConfigurationError(f"could not {what}: {servers} refuses the connection: {text} ({code})")
    if code in _ACL_NEEDED_TO_ASK:
        return BadConfigurationError(f"could not {what}: not authorized, it needs {_ACL_NEEDED_TO_ASK[code]} ({code})")
    if code.endswith("AUTHORIZATION_FAILED") or code == "UNSUPPORTED_VERSION":
        return BadConfigurationError(f"the Kafka brokers refuse to {what}: {text} ({code})")
    if problem.retriable:
        return RetriableError(
            f"could not {what} within {patience_s:g} s: no answer from the brokers at {servers}: {text} ({code}). "
            "Correct kafka.bootstrap.servers, or try again: nothing is lost"
        )
    if code == "UNKNOWN_MEMBER_ID":
        text = "it has members, and offsets can be set for a group without any: use another"
    return FatalError(f"could not {what}: {text} ({code})")
