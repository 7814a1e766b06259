"""Kafka's error codes and kafka-python's exceptions as problems, under the names that librdkafka has for them."""

from __future__ import annotations

from confluent_kafka import KafkaError as CodeOfKafka
from kafka.errors import KafkaError

from penstock_kafka.client._brokers import is_refusal, words_of
from penstock_kafka.client._problems import Problem

__all__ = [
    "IDENTITY_LOST",
    "MAYBE_WRITTEN",
    "NO_TOPIC",
    "OUT_OF_ORDER",
    "TOO_LARGE",
    "WRITTEN",
    "ProblemError",
    "problem_of",
    "problem_of_code",
]

#: What passes: a broker is busy, moving or restarting, a topic is on its way. See Kafka's ``Errors``.
_PASSING = frozenset(
    (-1, 2, 3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 74, 75, 78, 82, 89, 100, 107)
)  # fmt: skip
#: Acknowledged, now or before (DUPLICATE_SEQUENCE_NUMBER).
WRITTEN = frozenset((0, 46))
#: What a leader may answer for a batch that it has written: UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT,
#: NOT_ENOUGH_REPLICAS_AFTER_APPEND.
MAYBE_WRITTEN = frozenset((-1, 7, 20))
NO_TOPIC = 3
TOO_LARGE = 10
OUT_OF_ORDER = 45
#: The broker does not know what the producer has written before: OUT_OF_ORDER_SEQUENCE_NUMBER,
#: INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID.
IDENTITY_LOST = frozenset((OUT_OF_ORDER, 47, 59))


class ProblemError(Exception):
    """A request failed for good, or for longer than it may take."""

    def __init__(self, problem: Problem, *, timed_out: bool = False) -> None:
        super().__init__(problem.text)
        self.problem = problem
        self.timed_out = timed_out


def problem_of_code(code: int, *, topic: str = "", partition: int = -1, size: int = 0, text: str = "") -> Problem:
    """An answer's error, with where it happened."""
    named = CodeOfKafka(code)
    return Problem(
        code=named.name(),
        text=text or named.str(),
        topic=topic,
        partition=partition,
        size=size,
        retriable=code in _PASSING,
    )


def problem_of(error: BaseException) -> Problem:
    """What kept a request from being answered, or an answer's error that was raised."""
    code = getattr(error, "errno", None)
    if isinstance(error, KafkaError) and isinstance(code, int) and code != 0:
        return problem_of_code(code, text=words_of(error) if is_refusal(error) else "")
    if is_refusal(error):
        return Problem("_AUTHENTICATION", words_of(error))
    return Problem("_TRANSPORT", words_of(error), retriable=True)
