"""Questions to the brokers: topics, offsets, consumer groups. Confluent-kafka's admin client with our errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka import TopicCollection as Topics
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.errors import BadConfigurationError, FatalError, PenstockError, RetriableError
from penstock.source.log import LogPartition
from penstock_kafka.client._errors import MISSING, MOVING, NOT_AUTHENTICATED, Problem, bad_setting
from penstock_kafka.client._interfaces import ClientConfig
from penstock_kafka.client.librdkafka._errors import problem_of, setting_problem

__all__ = ["PATIENCE_SECONDS", "KafkaAdmin"]

_log = logging.getLogger("penstock.kafka")

#: For one answer. A broker that restarts is waited for; what still fails is asked again by the caller.
PATIENCE_SECONDS = 10.0
#: For the first try of it.
FIRST_TRY_SECONDS = 1.0
#: Between two tries.
PAUSE_SECONDS = 0.1

_ACL_NEEDED = {
    "TOPIC_AUTHORIZATION_FAILED": "Describe and Read on the topic",
    "GROUP_AUTHORIZATION_FAILED": "Describe and Read on the consumer group",
    "CLUSTER_AUTHORIZATION_FAILED": "Describe on the cluster",
}
_REFUSED = NOT_AUTHENTICATED | {"_SSL"}
_PASSING = MOVING | {
    *("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_WAIT_COORD", "_WAIT_CACHE", "_TIMED_OUT_QUEUE"),
    "UNSTABLE_OFFSET_COMMIT",
}
_NO_LEADER = "_NOENT"
_NO_OFFSET = -1

AnswerT = TypeVar("AnswerT")


class _NoLeaderError(RetriableError):
    """No partition that was asked for has a leader."""


class KafkaAdmin:
    """Asks the brokers. Thread-safe. Not to be used after a fork.

    Every method raises :class:`RetriableError` if the brokers don't answer in time and
    :class:`BadConfigurationError` if they refuse. What does not exist is left out of the answers.
    """

    def __init__(self, config: ClientConfig, *, read_committed: bool, patience_s: float = PATIENCE_SECONDS) -> None:
        self._patience = patience_s
        self._servers = config.get("bootstrap.servers", "")
        self._last_refusal: Problem | None = None
        self._isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        try:
            self._client = AdminClient({**config, "error_cb": self._on_error}, logger=_log)
        except KafkaException as error:
            raise bad_setting(setting_problem(error.args[0], config), config) from None

    def _on_error(self, error: KafkaError) -> None:
        problem = problem_of(error)
        if problem.code in _REFUSED:
            self._last_refusal = problem

    def topic_names(self) -> list[str]:
        """Every topic that may be described."""
        try:
            listed = self._client.list_topics(timeout=self._patience).topics
        except KafkaException as error:
            raise self._translated(error, "listing topics") from None
        return list(listed)

    def describe(self, topics: Collection[str]) -> dict[str, tuple[str, int]]:
        """Topic → (its id, number of its partitions)."""
        names = list(topics)
        return self._persist(lambda seconds: self._ask_topics(names, seconds)) if names else {}

    def _ask_topics(self, topics: list[str], seconds: float) -> dict[str, tuple[str, int]]:
        asked = self._client.describe_topics(Topics(topics), request_timeout=seconds)
        found = {name: self._answer(future, f"describing topic '{name}'") for name, future in asked.items()}
        return {name: (str(one.topic_id), len(one.partitions)) for name, one in found.items() if one is not None}

    def earliest(self, partitions: Collection[LogPartition]) -> dict[LogPartition, int]:
        """The first offset that is there, or would be."""
        return _known(self._offsets({partition: OffsetSpec.earliest() for partition in partitions}))

    def latest(self, partitions: Collection[LogPartition]) -> dict[LogPartition, int]:
        """The offset behind the last record that may be read: for read_committed, the last stable offset."""
        return _known(self._offsets({partition: OffsetSpec.latest() for partition in partitions}))

    def end(self, partitions: Collection[LogPartition]) -> dict[LogPartition, int]:
        """The offset behind the last record, committed or not."""
        specs = {partition: OffsetSpec.latest() for partition in partitions}
        return _known(self._offsets(specs, IsolationLevel.READ_UNCOMMITTED))

    def at_timestamp(self, times_ms: Mapping[LogPartition, int]) -> dict[LogPartition, int | None]:
        """The offset of the first record at or after each time; ``None`` if there is none."""
        return self._offsets({partition: OffsetSpec.for_timestamp(time) for partition, time in times_ms.items()})

    def _offsets(
        self, specs: Mapping[LogPartition, Any], isolation: IsolationLevel | None = None
    ) -> dict[LogPartition, int | None]:
        return self._persist(lambda seconds: self._ask_offsets(specs, isolation or self._isolation, seconds))

    def _ask_offsets(
        self, specs: Mapping[LogPartition, Any], isolation: IsolationLevel, seconds: float
    ) -> dict[LogPartition, int | None]:
        if not specs:
            return {}
        wanted = {TopicPartition(p.stream, p.partition): spec for p, spec in specs.items()}
        asked = self._client.list_offsets(wanted, isolation_level=isolation, request_timeout=seconds)
        doing = f"asking for offsets of {', '.join(sorted({p.stream for p in specs})[:5])}"
        try:
            answers = {LogPartition(p.topic, p.partition): self._answer(future, doing) for p, future in asked.items()}
        except _NoLeaderError:  # nor has a topic that was deleted
            topics = {partition.stream for partition in specs}
            there = self._ask_topics(list(topics), seconds)
            if len(there) == len(topics):
                raise
            return self._ask_offsets({p: spec for p, spec in specs.items() if p.stream in there}, isolation, seconds)
        return {p: self._offset(p, answer.offset) for p, answer in answers.items() if answer is not None}

    def _offset(self, partition: LogPartition, answer: int) -> int | None:
        if answer < _NO_OFFSET:  # what the client says, without an error, for a leader that did not answer
            raise RetriableError(f"asking for offsets: no answer from the leader of {partition} ({self._servers})")
        return None if answer == _NO_OFFSET else answer

    def _persist(self, question: Callable[[float], AnswerT]) -> AnswerT:
        """Asks with growing time-outs until an answer comes or patience ends.

        The client goes on asking leaders and controllers that it remembers, also when they are gone, so it is made to
        look anew before the next try: at all topics, since asking for one by name may create it.
        """
        deadline = time.monotonic() + self._patience
        seconds = min(FIRST_TRY_SECONDS, self._patience)
        while True:
            try:
                return question(seconds)
            except RetriableError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE_SECONDS)
            try:
                self._client.list_topics(timeout=seconds)
            except KafkaException as error:
                _log.debug("no broker answers: %s", error)
            seconds = min(2 * seconds, self._patience)

    def committed(self, group: str, partitions: Collection[LogPartition]) -> dict[LogPartition, int | None]:
        """What ``group`` committed for each of ``partitions``; ``None`` for nothing."""
        if not partitions:
            return {}
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(p.stream, p.partition) for p in partitions])
        asked = self._client.list_consumer_group_offsets([wanted], request_timeout=self._patience)
        answer = self._answer(asked[group], f"asking for offsets of the consumer group '{group}'")
        found = {(p.topic, p.partition): p.offset for p in answer.topic_partitions} if answer is not None else {}
        offsets = {p: found.get((p.stream, p.partition), _NO_OFFSET) for p in partitions}
        return {partition: offset if offset >= 0 else None for partition, offset in offsets.items()}

    def commit(self, group: str, positions: Mapping[LogPartition, int]) -> None:
        """Commits for ``group``, which must have no members (no consumer that has joined it)."""
        wanted = [TopicPartition(p.stream, p.partition, offset) for p, offset in positions.items()]
        asked = self._client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=self._patience
        )
        doing = f"committing offsets for the consumer group '{group}'"
        answer = self._answer(asked[group], doing)
        for partition in answer.topic_partitions if answer is not None else ():
            if partition.error is not None and problem_of(partition.error).code not in MISSING:
                raise self._translated(KafkaException(partition.error), doing)

    def _answer(self, future: Future[Any], doing: str) -> Any | None:
        """The result; ``None`` for what does not exist."""
        try:
            return future.result()
        except KafkaException as error:
            if problem_of(error.args[0]).code in MISSING:
                return None
            raise self._translated(error, doing) from None

    def _translated(self, error: KafkaException, doing: str) -> PenstockError:
        problem = problem_of(error.args[0])
        self._client.poll(0)  # only now is the client's callback called with what is behind it
        if problem.code in _PASSING and self._last_refusal is not None:
            problem, self._last_refusal = self._last_refusal, None
        code, text = problem.code, problem.text
        if code in _REFUSED:
            return BadConfigurationError(f"{doing}: {self._servers} refuses the connection: {text} ({code})")
        if code in _ACL_NEEDED:
            return BadConfigurationError(f"{doing}: not authorized, it needs {_ACL_NEEDED[code]} ({code})")
        if code in _PASSING or code == _NO_LEADER or problem.retriable:
            kind = _NoLeaderError if code == _NO_LEADER else RetriableError
            return kind(f"{doing}: no answer from the brokers at {self._servers}: {text} ({code})")
        if code == "UNKNOWN_MEMBER_ID":
            return FatalError(f"{doing}: it has members, and offsets can be set for a group without any: use another")
        return FatalError(f"{doing}: {text} ({code})")


def _known(offsets: Mapping[LogPartition, int | None]) -> dict[LogPartition, int]:
    return {partition: offset for partition, offset in offsets.items() if offset is not None}
