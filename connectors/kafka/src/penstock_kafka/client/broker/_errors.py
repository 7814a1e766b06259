"""Kafka's error codes and kafka-python's exceptions as problems."""

from __future__ import annotations

import kafka.errors
from kafka.errors import (
    AuthorizationError,
    DelegationTokenAuthDisabledError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)

from penstock_kafka.client._errors import MOVING, Code, Problem, is_refusal_by_tls, name_of

__all__ = [
    "IDENTITY_LOST",
    "MAYBE_WRITTEN",
    "WRITTEN",
    "ProblemError",
    "is_refusal",
    "problem_of",
    "problem_of_code",
    "raise_for",
    "words_of",
]

#: What passes: a broker is busy, moving or restarting, a topic is being created.
_PASSING = {Code[name] for name in MOVING} | {
    *(Code.UNKNOWN_SERVER_ERROR, Code.CORRUPT_MESSAGE, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID),
    *(Code.NOT_ENOUGH_REPLICAS, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Code.CONCURRENT_TRANSACTIONS),
    *(Code.THROTTLING_QUOTA_EXCEEDED, Code.UNSTABLE_OFFSET_COMMIT),
}
#: The leader has acknowledged the batch, now or before.
WRITTEN = frozenset((Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER))
#: What a leader may answer for a batch that it has written.
MAYBE_WRITTEN = frozenset((Code.UNKNOWN_SERVER_ERROR, Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
#: The broker does not know what the producer has written before.
IDENTITY_LOST = frozenset((Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.INVALID_PRODUCER_EPOCH, Code.UNKNOWN_PRODUCER_ID))
#: Of the last, kafka-python's own for a request that no version fits of is one.
_REFUSALS = (
    *(AuthorizationError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError),
    *(DelegationTokenAuthDisabledError, UnsupportedVersionError),
)


class ProblemError(Exception):
    """A request failed for good, or for longer than it may take."""

    def __init__(self, problem: Problem, *, timed_out: bool = False, hopeless: bool = False) -> None:
        super().__init__(problem.text)
        self.problem = problem
        self.timed_out = timed_out
        #: Whether asking on is of no use now, though it may be later.
        self.hopeless = hopeless


def raise_for(code: int, doing: str) -> None:
    """Raises kafka-python's exception for an error code; returns for none. ``doing`` begins with "while"."""
    if code:
        raise kafka.errors.for_code(code)(doing)


def problem_of_code(code: int, *, topic: str = "", partition: int = -1, size: int = 0, text: str = "") -> Problem:
    """Returns the problem that an answer's error code stands for, with where it happened."""
    name = name_of(code, str(getattr(kafka.errors.for_code(code), "message", "UNKNOWN")))
    return Problem(
        code=name,
        text=text or f"the broker answers: {name.replace('_', ' ').lower()}",
        topic=topic,
        partition=partition,
        size=size,
        retriable=code in _PASSING,
    )


def problem_of(error: BaseException) -> Problem:
    """Returns the problem that kept a request from being answered, or an answer's error that was raised."""
    code = getattr(error, "errno", None)
    if isinstance(error, KafkaError) and isinstance(code, int) and code != 0:
        return problem_of_code(code, text=words_of(error) if is_refusal(error) else "")
    if is_refusal(error):
        return Problem("_AUTHENTICATION", words_of(error))
    return Problem("_TRANSPORT", words_of(error), retriable=True)


def is_refusal(error: BaseException) -> bool:
    """Returns whether the brokers will not take these credentials, or not from this user."""
    return isinstance(error, _REFUSALS) or is_refusal_by_tls(str(error))


def words_of(error: BaseException) -> str:
    """Returns the error's kind and text."""
    return f"{type(error).__name__}: {error}".rstrip(": ")
