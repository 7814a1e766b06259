"""confluent-kafka's errors as problems, under Kafka's names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from confluent_kafka import KafkaError

from penstock_kafka.client._errors import Problem, name_of

__all__ = ["problem_of", "setting_problem"]

_NAMED = re.compile(r'property:? "([^"]+)"')


def problem_of(error: KafkaError, *, topic: str = "", partition: int = -1, offset: int = -1, size: int = 0) -> Problem:
    """Returns the problem that an error stands for, with where it happened."""
    return Problem(
        code=name_of(error.code(), error.name()),
        text=error.str(),
        topic=topic,
        partition=partition,
        offset=offset,
        size=size,
        fatal=error.fatal(),
        retriable=error.retriable(),
    )


def setting_problem(error: KafkaError, config: Mapping[str, object]) -> Problem:
    """A client could not be made: names the setting rather than quoting librdkafka, which may quote a secret value."""
    found = _NAMED.findall(error.str())
    # As the user wrote it, where that is known: librdkafka has a second name for some.
    named = [name for name in found if name in config] or found
    return Problem(code=error.name(), text=error.str(), topic=named[-1] if named else "")
