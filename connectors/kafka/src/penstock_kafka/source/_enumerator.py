"""What the log template asks of Kafka."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from penstock.source.log import LogClient, LogPartition
from penstock_kafka.options import Subscription
from penstock_kafka.source._admin import KafkaAdmin

__all__ = ["KafkaLogClient"]


class KafkaLogClient(LogClient):
    """See :class:`penstock.source.log.LogClient`. A stream is a topic, its incarnation the topic's id."""

    def __init__(self, admin: KafkaAdmin, subscription: Subscription) -> None:
        self._admin = admin
        self._subscription = subscription

    def list_partitions(self) -> Mapping[str, tuple[str, int]]:
        """See the base class."""
        subscription = self._subscription
        if subscription.pattern is None:
            return self._admin.describe(subscription.topics)
        return self._admin.describe([name for name in self._admin.topic_names() if subscription.matches(name)])

    def selects(self, partition: LogPartition) -> bool:
        """See the base class."""
        assigned = self._subscription.partitions
        return not assigned or partition in assigned

    def absent(self, found: Collection[LogPartition]) -> Sequence[str]:
        """See the base class."""
        there = {partition.stream for partition in found}
        topics = [f"topic '{topic}'" for topic in self._subscription.topics if topic not in there]
        return topics or [f"partition {p}" for p in sorted(self._subscription.partitions.difference(found))]

    def earliest(self, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int]:
        """See the base class."""
        return self._admin.earliest(partitions)

    def latest(self, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int]:
        """See the base class: the last stable offset, unless the isolation level is read_uncommitted."""
        return self._admin.latest(partitions)

    def end(self, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int]:
        """See the base class: the high watermark."""
        return self._admin.end(partitions)

    def at_timestamp(self, times_ms: Mapping[LogPartition, int]) -> Mapping[LogPartition, int | None]:
        """See the base class."""
        return self._admin.at_timestamp(times_ms)

    def committed(self, group: str, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int | None]:
        """See the base class."""
        return self._admin.committed(group, partitions)

    def commit(self, group: str, positions: Mapping[LogPartition, int]) -> None:
        """See the base class."""
        self._admin.commit(group, positions)

    def close(self) -> None:
        """See the base class. The client ends with its last reference: a request may be under way."""
