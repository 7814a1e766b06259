"""Questions to the brokers about topics, offsets and consumer groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from penstock.errors import BadConfigurationError
from penstock.per_process import PerProcess
from penstock.source.log import LogPartition
from penstock_kafka.client._interfaces import ClientConfig
from penstock_kafka.client._transactions import Partition
from penstock_kafka.client.broker._errors import raise_for
from penstock_kafka.client.broker._features import Feature
from penstock_kafka.client.broker._groups import commit_offsets, committed_offsets
from penstock_kafka.client.broker._metadata import Leaders
from penstock_kafka.client.broker._partitions import UNKNOWN_TOPIC, ask_leaders, by_topic
from penstock_kafka.client.broker._pool import Connections, Settings
from penstock_kafka.client.broker._retrying import RetryingBrokers
from penstock_kafka.client.broker._settings import connection_settings

__all__ = ["PATIENCE_SECONDS", "KafkaAdmin", "kafka_admin"]

#: For one answer. A broker that restarts is waited for; what still fails is asked again by the caller.
PATIENCE_SECONDS = 10.0
_FIRST_TRY_SECONDS = 1.0

#: In place of a time.
_LATEST, _EARLIEST = -1, -2
_NO_OFFSET = -1


class KafkaAdmin:
    """Asks the brokers. Thread-safe. Not to be used after a fork.

    Every method raises :class:`penstock.errors.RetriableError` if the brokers don't answer in time and
    :class:`penstock.errors.BadConfigurationError` if they refuse. What does not exist is left out of the answers.
    """

    def __init__(self, config: ClientConfig, *, read_committed: bool, patience_s: float = PATIENCE_SECONDS) -> None:
        first_try_s = min(_FIRST_TRY_SECONDS, patience_s)
        self._brokers = RetryingBrokers(config, patience_s=patience_s, first_try_s=first_try_s)
        self._read_committed = read_committed

    def require(self, feature: Feature) -> None:
        """Raises BadConfigurationError, which says what to do instead, if the brokers can't do it."""
        self._brokers.require(feature)

    # --- topics -------------------------------------------------------------------------------------------------------

    def topic_names(self) -> list[str]:
        """Returns every topic that may be described."""

        async def question(brokers: Connections) -> list[str]:
            answer = await brokers.send(MetadataRequest(topics=None, min_version=1, max_version=12))
            return [topic.name for topic in answer.topics]

        return self._brokers.ask(question, "list topics")

    def describe(self, topics: Collection[str]) -> dict[str, tuple[str, int]]:
        """Topic → (its id, number of its partitions)."""

        async def question(brokers: Connections) -> dict[str, tuple[str, int]]:
            leaders = brokers.leaders
            await leaders.refresh_metadata(brokers.client, topics)
            return {topic: (leaders.id_of(topic), count) for topic in topics if (count := _count(leaders, topic))}

        return self._brokers.ask(question, f"describe {_some(topics)}") if topics else {}

    def partition_count(self, topic: str) -> int:
        """Returns how many partitions a topic has that is to be written to: brokers may make it when they are asked.

        Asked once a minute. Raises BadConfigurationError for a topic that is not there.
        """

        async def question(brokers: Connections) -> int:
            if not brokers.leaders.count_of(topic):
                await brokers.leaders.refresh_metadata(brokers.client, [topic], create=True)
            return _count(brokers.leaders, topic)

        if count := self._brokers.ask(question, f"see how many partitions topic '{topic}' has"):
            return count
        raise BadConfigurationError(f"topic '{topic}' can't be written to: it does not exist")

    # --- offsets ------------------------------------------------------------------------------------------------------

    def earliest(self, partitions: Collection[LogPartition]) -> dict[LogPartition, int]:
        """Returns the first offset that is there, or would be."""
        return _known(self._offsets(dict.fromkeys(partitions, _EARLIEST)))

    def latest(self, partitions: Collection[LogPartition]) -> dict[LogPartition, int]:
        """Returns the offset after the last record that may be read: for read_committed, the last stable offset."""
        return _known(self._offsets(dict.fromkeys(partitions, _LATEST), self._read_committed))

    def end(self, partitions: Collection[LogPartition]) -> dict[LogPartition, int]:
        """Returns the offset after the last record, committed or not."""
        return _known(self._offsets(dict.fromkeys(partitions, _LATEST)))

    def at_timestamp(self, times_ms: Mapping[LogPartition, int]) -> dict[LogPartition, int | None]:
        """Returns the offset of the first record at or after each time; ``None`` if there is none."""
        return self._offsets(times_ms, self._read_committed)

    def _offsets(self, times_ms: Mapping[LogPartition, int], committed: bool = False) -> dict[LogPartition, int | None]:
        wanted = {(one.stream, one.partition): time_ms for one, time_ms in times_ms.items()}

        def request_for(led: Collection[Partition]) -> Any:
            topic = ListOffsetsRequest.ListOffsetsTopic
            partition = topic.ListOffsetsPartition
            topics = [
                topic(name=name, partitions=[partition(partition_index=n, timestamp=wanted[name, n]) for n in numbers])
                for name, numbers in by_topic(led).items()
            ]
            return ListOffsetsRequest(isolation_level=int(committed), topics=topics, min_version=2, max_version=9)

        async def question(brokers: Connections) -> dict[LogPartition, int | None]:
            answers = await ask_leaders(brokers, wanted, request_for)
            # In the order of the question.
            offsets = {one: answers[one].offset for one in wanted if one in answers}
            return {LogPartition(*one): None if at == _NO_OFFSET else at for one, at in offsets.items()}

        if not wanted:
            return {}
        return self._brokers.ask(question, f"ask for offsets of {_some({topic for topic, _ in wanted})}")

    # --- consumer groups ----------------------------------------------------------------------------------------------

    def committed(self, group: str, partitions: Collection[LogPartition]) -> dict[LogPartition, int | None]:
        """Returns what ``group`` committed for each of ``partitions``; ``None`` for nothing."""
        wanted = {(one.stream, one.partition): one for one in partitions}

        async def question(brokers: Connections) -> dict[LogPartition, int | None]:
            found = await committed_offsets(brokers, group, wanted)
            return {one: found[key].offset if key in found else None for key, one in wanted.items()}

        what = f"ask for offsets of the consumer group '{group}'"
        return self._brokers.ask(question, what) if partitions else {}

    def commit(self, group: str, positions: Mapping[LogPartition, int]) -> None:
        """Commits for ``group``, which must have no members (no consumer that has joined it)."""
        offsets = {(one.stream, one.partition): offset for one, offset in positions.items()}
        self._brokers.ask(
            lambda brokers: commit_offsets(brokers, group, offsets), f"commit offsets for the consumer group '{group}'"
        )

    def close(self) -> None:
        """Ends the use of the connections; the next request reopens them."""
        self._brokers.close()


def _count(leaders: Leaders, topic: str) -> int:
    """Returns how many partitions the topic has, as was asked just now; 0 if it does not exist. Raises what kept it
    hidden.
    """
    count = leaders.count_of(topic)
    if not count and leaders.problem_of(topic) not in UNKNOWN_TOPIC:
        raise_for(leaders.problem_of(topic), f"topic '{topic}'")
    return count


def _known(offsets: Mapping[LogPartition, int | None]) -> dict[LogPartition, int]:
    return {partition: offset for partition, offset in offsets.items() if offset is not None}


def _some(topics: Collection[str]) -> str:
    return ", ".join(sorted(topics)[:5])


#: One that is closed connects again when it is asked.
_kept = PerProcess[Settings, KafkaAdmin](
    lambda settings: KafkaAdmin(dict(settings), read_committed=False), close=KafkaAdmin.close
)


def kafka_admin(config: ClientConfig) -> KafkaAdmin:
    """Returns the one that this process keeps for such connections, for questions about topics."""
    return _kept.get(connection_settings(config))
