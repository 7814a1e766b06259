"""Topics and their partitions, and which broker leads which."""

from __future__ import annotations

import base64
import time
from collections.abc import Collection, Iterable
from typing import Any

from kafka.errors import KafkaTimeoutError, RequestTimedOutError
from kafka.protocol.metadata import MetadataRequest

from penstock_kafka.client._errors import Code
from penstock_kafka.client._transactions import Partition
from penstock_kafka.client.broker._kafka_python import KafkaPython

__all__ = ["SILENT_S", "Leaders", "spelled_id"]

#: Without an answer to a request for so long: another broker may have taken the place of the one that was asked. Of a
#: request that the broker may let wait, so long after that.
SILENT_S = 3.0

#: How long it may go unnoticed that a topic has more partitions.
_KEPT_S = 60.0
#: How long an answer is waited for at first; twice as long after each time that none came in time. Any broker can
#: answer, and one that stands still does not.
_FIRST_TRY_MS, _LONGEST_TRY_MS = 3_000.0, 30_000.0


class Leaders:
    """What the brokers last said of topics.

    Any thread may read it; :meth:`refresh_metadata` and :meth:`forget`, which run in the connections' loop, change it.
    """

    def __init__(self) -> None:
        self._nodes: dict[Partition, int] = {}
        self._ids: dict[str, str] = {}
        self._counts: dict[str, tuple[int, float]] = {}
        self._problems: dict[str, int] = {}
        self._try_ms = _FIRST_TRY_MS

    def node_of(self, topic: str, partition: int) -> int | None:
        """Returns the leader; ``None`` if it is not known, or there is none at the moment."""
        return self._nodes.get((topic, partition))

    def have_left(self, node: int, partitions: Iterable[Partition]) -> list[Partition]:
        """Returns those of ``partitions`` that another broker is known to lead."""
        return [one for one in partitions if self._nodes.get(one) not in (None, node)]

    def count_of(self, topic: str) -> int:
        """Returns how many partitions the topic has; 0 if that is not known, or was asked long ago."""
        count, asked = self._counts.get(topic, (0, 0.0))
        return count if time.monotonic() - asked < _KEPT_S else 0

    def id_of(self, topic: str) -> str:
        """Returns the topic's id, spelled as Kafka's tools do; empty if it is not known, or the topic has none."""
        return self._ids.get(topic, "")

    def problem_of(self, topic: str) -> int:
        """Returns the error code with which the brokers last answered for the topic; 0 for none."""
        return self._problems.get(topic, 0)

    def forget(self, topic: str) -> None:
        """Drops the leaders of a topic's partitions, which may have moved. Belongs to the loop."""
        for key in [key for key in self._nodes if key[0] == topic]:
            del self._nodes[key]

    async def refresh_metadata(
        self, client: KafkaPython, topics: Collection[str], timeout_ms: float | None = None, create: bool = False
    ) -> None:
        """Asks any broker for the topics' partitions, ``timeout_ms`` at most. Belongs to the loop.

        ``create``: a topic that does not exist is made, where brokers do that for producers. Raises kafka-python's
        errors; after an answer that did not come in time, another broker may be asked at once.
        """
        wanted = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(topics)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create, min_version=4, max_version=12)
        try:
            answer = await client.send(request, timeout_ms=min(self._try_ms, timeout_ms or self._try_ms))
        except (KafkaTimeoutError, RequestTimedOutError):
            self._try_ms = min(2 * self._try_ms, _LONGEST_TRY_MS)
            raise
        self._try_ms = _FIRST_TRY_MS
        if any(_has_moved(broker, client.broker(broker.node_id)) for broker in answer.brokers):
            await client.refresh_brokers()
        for topic in answer.topics:
            self.forget(topic.name)
            self._problems.pop(topic.name, None)
            if topic.error_code:
                self._counts.pop(topic.name, None)
                self._problems[topic.name] = topic.error_code
                continue
            self._counts[topic.name] = (len(topic.partitions), time.monotonic())
            # Brokers before 2.8 have no ids, and say so by one of zeros only.
            self._ids[topic.name] = spelled_id(topic.topic_id.bytes) if topic.topic_id.int else ""
            for one in topic.partitions:
                if one.leader_id >= 0:
                    self._nodes[topic.name, one.partition_index] = one.leader_id
                else:
                    self._problems[topic.name] = Code.LEADER_NOT_AVAILABLE


def spelled_id(topic_id: bytes | memoryview) -> str:
    """Returns a topic's id as checkpoints hold it."""
    return base64.b64encode(topic_id).decode().rstrip("=")


def _has_moved(broker: Any, known: Any) -> bool:
    return known is None or (known.host, known.port) != (broker.host, broker.port)
