"""The marks in the partitions' logs that make a transaction's end visible to readers, and what to do if one is missing.

A coordinator notes that a transaction is to end, writes a mark into each of its partitions, then notes that it has
ended. A broker that is killed between the two notes and comes back may not know the partitions' leaders yet; it then
takes the partitions for deleted and leaves their marks out (``TransactionMarkerChannelManager``; seen on a single node
of Kafka 4.3.1). The coordinator says that the transaction has ended; its records stay hidden, and so does everything
behind them. Whoever knows how it ended can write the mark. Protocol: DescribeProducers and WriteTxnMarkers (KIP-664).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kafka.errors import KafkaError, LeaderNotAvailableError
from kafka.protocol.admin.transactions import DescribeProducersRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import WriteTxnMarkersRequest

from penstock_kafka.client._errors import Code
from penstock_kafka.client._transactions import Partition, TransactionRef
from penstock_kafka.client.broker._errors import raise_for
from penstock_kafka.client.broker._retrying import RetryingBrokers

__all__ = ["Markers", "Unmarked"]

_log = logging.getLogger("penstock.kafka")

#: Nothing to look after in a partition that is gone; one that may not be looked into is left to the coordinator.
_PASSED_OVER = (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.TOPIC_AUTHORIZATION_FAILED, Code.INVALID_TOPIC_EXCEPTION)


@dataclass(frozen=True)
class Unmarked:
    """A partition in which a transaction is open."""

    partition: Partition
    ref: TransactionRef
    coordinator_epoch: int


class Markers:
    """Looks for marks in partitions and writes them. One thread, that of ``brokers``; retries and raises as they do."""

    def __init__(self, brokers: RetryingBrokers) -> None:
        self._brokers = brokers
        self._leaders: dict[Partition, int] = {}

    def partitions_of(self, topics: Collection[str]) -> set[Partition]:
        """All partitions of those of the topics that exist."""

        def attempt() -> set[Partition]:
            self._brokers.run(self._refresh_leaders, topics)
            return {partition for partition in self._leaders if partition[0] in topics}

        return self._brokers.persist(attempt, "find the partitions of topics") if topics else set()

    def missing(self, refs: Collection[TransactionRef], partitions: Collection[Partition]) -> list[Unmarked]:
        """Where the transactions are open still: usually for some milliseconds after they were ended, then nowhere."""
        by_producer = {(ref.producer_id, ref.epoch): ref for ref in refs}

        def attempt() -> list[Unmarked]:
            found: list[Unmarked] = []
            for partition, producers in self._ask_leaders(self._describe, partitions).items():
                for one in producers:
                    ref = by_producer.get((one.producer_id, one.producer_epoch))
                    if ref is not None and one.current_txn_start_offset >= 0:
                        found.append(Unmarked(partition, ref, one.coordinator_epoch))
            return found

        return self._brokers.persist(attempt, "see whether transactions have ended in their partitions")

    def write(self, missing: Collection[Unmarked], *, commit: bool) -> None:
        """Ends the transactions in those partitions. Only for what is known to have ended that way.

        Needs the right ClusterAction (or Alter) on the cluster.
        """
        by_partition: dict[Partition, list[Unmarked]] = defaultdict(list)
        for one in missing:
            by_partition[one.partition].append(one)

        async def mark(node: int, partitions: Collection[Partition]) -> dict[Partition, Any]:
            marker = WriteTxnMarkersRequest.WritableTxnMarker
            request = WriteTxnMarkersRequest(
                markers=[
                    marker(
                        producer_id=one.ref.producer_id,
                        producer_epoch=one.ref.epoch,
                        transaction_result=commit,
                        topics=[marker.WritableTxnMarkerTopic(name=topic, partition_indexes=[number])],
                        coordinator_epoch=one.coordinator_epoch,
                    )
                    for topic, number in partitions
                    for one in by_partition[topic, number]
                ]
            )
            answer = await self._brokers.send(request, node_id=node)
            return _answers(topic for marker in answer.markers for topic in marker.topics)

        self._brokers.persist(
            lambda: self._ask_leaders(mark, by_partition), "write the end of a transaction into a partition"
        )

    async def _describe(self, node: int, partitions: Collection[Partition]) -> dict[Partition, Any]:
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, number in partitions:
            by_topic[topic].append(number)
        wanted = DescribeProducersRequest.TopicRequest
        topics = [wanted(name=topic, partition_indexes=numbers) for topic, numbers in by_topic.items()]
        answer = await self._brokers.send(DescribeProducersRequest(topics=topics), node_id=node)
        return {partition: one.active_producers for partition, one in _answers(answer.topics).items()}

    # --- leaders ------------------------------------------------------------------------------------------------------

    def _ask_leaders(self, ask: Any, partitions: Collection[Partition]) -> dict[Partition, Any]:
        """The answers to ``ask(node, partitions)`` of the leaders of all partitions."""

        async def everyone() -> dict[Partition, Any]:
            unknown = {topic for topic, number in partitions if (topic, number) not in self._leaders}
            if unknown:
                await self._refresh_leaders(unknown)
            by_node: dict[int, list[Partition]] = defaultdict(list)
            for partition in partitions:
                if partition in self._leaders:  # else the topic is gone
                    by_node[self._leaders[partition]].append(partition)
            found: dict[Partition, Any] = {}
            for node, led in by_node.items():
                found.update(await ask(node, led))
            return found

        try:
            found: dict[Partition, Any] = self._brokers.run(everyone)
        except (KafkaError, OSError):
            self._leaders.clear()  # they may have moved
            raise
        return found

    async def _refresh_leaders(self, topics: Collection[str]) -> None:
        wanted = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(topics)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False, min_version=4)
        answer = await self._brokers.send(request)
        for topic in answer.topics:
            if not _is_passed_over(topic.error_code, topic.name):
                for one in topic.partitions:
                    if one.leader_id < 0:
                        raise LeaderNotAvailableError(f"{topic.name}-{one.partition_index}")
                    self._leaders[topic.name, one.partition_index] = one.leader_id


def _answers(topics: Any) -> dict[Partition, Any]:
    return {
        (topic.name, one.partition_index): one
        for topic in topics
        for one in topic.partitions
        if not _is_passed_over(one.error_code, f"{topic.name}-{one.partition_index}")
    }


def _is_passed_over(code: int, where: str) -> bool:
    """False if there is nothing wrong; raises what has to be tried again."""
    if code == 0:
        return False
    if code not in _PASSED_OVER:
        raise_for(code, where)
    _log.debug("%s can't be looked into: %s", where, Code(code).name)
    return True
