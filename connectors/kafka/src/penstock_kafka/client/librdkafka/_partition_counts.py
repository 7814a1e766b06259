"""How many partitions topics have, for partitioners on the side of the writer."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.errors import BadConfigurationError, RetriableError
from penstock.per_process import PerProcess

__all__ = ["PartitionCounts", "partition_counts"]

_KEPT_S = 60.0
_TIMEOUT_S = 30.0


class PartitionCounts:
    """How many partitions topics have, asked once a minute. Task, single thread."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._settings = dict(client)
        self._admin: AdminClient | None = None
        self._known: dict[str, tuple[int, float]] = {}

    def of(self, topic: str) -> int:
        """Raises BadConfigurationError for a topic that is not there, RetriableError if no broker answers."""
        count, asked = self._known.get(topic, (0, 0.0))
        if not count or time.monotonic() - asked > _KEPT_S:
            count = self._ask(topic)
            self._known[topic] = (count, time.monotonic())
        return count

    def _ask(self, topic: str) -> int:
        if self._admin is None:
            self._admin = AdminClient(self._settings)
        try:
            found = self._admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
        except KafkaException as error:
            raise RetriableError(f"no broker says how many partitions '{topic}' has: {error.args[0].str()}") from error
        if found.error is not None or not found.partitions:
            raise BadConfigurationError(f"topic '{topic}' can't be written to: {found.error or 'it has no partitions'}")
        return len(found.partitions)


_counts = PerProcess[tuple[tuple[str, str], ...], PartitionCounts](lambda client: PartitionCounts(dict(client)))


def partition_counts(client: Mapping[str, str]) -> PartitionCounts:
    """This process's counts with these settings, kept from one task to the next."""
    return _counts.get(tuple(sorted(client.items())))
