"""The questions of the log template's enumerator, as Kafka answers them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from penstock.source.log import LogClient, LogPartition
from penstock_kafka.client.broker import COMMITTING_OFFSETS, READING, KafkaAdmin
from penstock_kafka.options import Subscription

__all__ = ["KafkaLogClient"]


class KafkaLogClient(LogClient):
    """Asks the brokers for partitions and offsets. A stream is a topic, its incarnation the topic's id."""

    def __init__(self, admin: KafkaAdmin, subscription: Subscription) -> None:
        self._admin = admin
        self._subscription = subscription
        self._can_read = False

    def list_partitions(self) -> Mapping[str, tuple[str, int]]:
        """Returns the id and the number of partitions of each topic that is subscribed to."""
        subscription = self._subscription
        if not self._can_read:
            self._admin.require(READING)
            self._can_read = True
        if subscription.pattern is None:
            return self._admin.describe(subscription.topics)
        return self._admin.describe([name for name in self._admin.topic_names() if subscription.matches(name)])

    def selects(self, partition: LogPartition) -> bool:
        """Returns whether the topic is subscribed to and ``assign``, if it is set, names the partition."""
        assigned = self._subscription.partitions
        return partition in assigned if assigned else self._subscription.matches(partition.stream)

    def absent(self, found: Collection[LogPartition]) -> Sequence[str]:
        """Names the topics and partitions of the options that do not exist."""
        there = {partition.stream for partition in found}
        topics = [f"topic '{topic}'" for topic in self._subscription.topics if topic not in there]
        return topics or [f"partition {p}" for p in sorted(self._subscription.partitions.difference(found))]

    def earliest(self, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int]:
        """Returns the first offset of each partition."""
        return self._admin.earliest(partitions)

    def latest(self, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int]:
        """Returns the last stable offsets, or with read_uncommitted the high watermarks."""
        return self._admin.latest(partitions)

    def end(self, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int]:
        """Returns the high watermarks."""
        return self._admin.end(partitions)

    def at_timestamp(self, times_ms: Mapping[LogPartition, int]) -> Mapping[LogPartition, int | None]:
        """Returns the first offset at or after each time."""
        return self._admin.at_timestamp(times_ms)

    def committed(self, group: str, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int | None]:
        """Returns what a consumer group has committed."""
        self._admin.require(COMMITTING_OFFSETS)
        return self._admin.committed(group, partitions)

    def commit(self, group: str, positions: Mapping[LogPartition, int]) -> None:
        """Commits offsets for a consumer group."""
        self._admin.require(COMMITTING_OFFSETS)
        self._admin.commit(group, positions)

    def close(self) -> None:
        self._admin.close()
