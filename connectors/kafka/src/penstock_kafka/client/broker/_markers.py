"""The marks in the partitions' logs that make a transaction's end visible to readers, and what to do if one is missing.

A coordinator notes that a transaction is to end, writes a mark into each of its partitions, then notes that it has
ended. A broker that is killed between the two notes and comes back may not know the partitions' leaders yet; it then
takes the partitions for deleted and leaves their marks out (``TransactionMarkerChannelManager``; seen on a single node
of Kafka 4.3.1). The coordinator says that the transaction has ended; its records stay hidden, and so does everything
after them. A client that knows how it ended can write the mark.
Protocol: DescribeProducers and WriteTxnMarkers (KIP-664).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin.transactions import DescribeProducersRequest
from kafka.protocol.producer import WriteTxnMarkersRequest

from penstock_kafka.client._errors import Code
from penstock_kafka.client._transactions import Partition, TransactionRef
from penstock_kafka.client.broker._errors import raise_for
from penstock_kafka.client.broker._partitions import UNKNOWN_TOPIC, ask_leaders, by_topic
from penstock_kafka.client.broker._pool import Connections
from penstock_kafka.client.broker._retrying import RetryingBrokers

__all__ = ["Markers", "Unmarked"]

#: What may not be looked into is left to the coordinator.
_PASSED_OVER = frozenset((Code.TOPIC_AUTHORIZATION_FAILED, Code.INVALID_TOPIC_EXCEPTION))


@dataclass(frozen=True)
class Unmarked:
    """A partition in which a transaction is open."""

    partition: Partition
    ref: TransactionRef
    coordinator_epoch: int


class Markers:
    """Looks for marks in partitions and writes them. Thread-safe; retries and raises as ``brokers`` do."""

    def __init__(self, brokers: RetryingBrokers) -> None:
        self._brokers = brokers

    def partitions_of(self, topics: Collection[str]) -> set[Partition]:
        """Returns all partitions of those of the topics that exist."""

        async def question(brokers: Connections) -> set[Partition]:
            leaders = brokers.leaders
            await leaders.refresh_metadata(brokers.client, topics)
            for topic in topics:
                if (problem := leaders.problem_of(topic)) not in UNKNOWN_TOPIC | _PASSED_OVER:
                    raise_for(problem, f"topic '{topic}'")
            return {(topic, number) for topic in topics for number in range(leaders.count_of(topic))}

        return self._brokers.ask(question, "find the partitions of topics") if topics else set()

    def missing(self, refs: Collection[TransactionRef], partitions: Collection[Partition]) -> list[Unmarked]:
        """Returns where the transactions are open still: usually for some milliseconds after they were ended, then
        nowhere.
        """
        by_producer = {(ref.producer_id, ref.epoch): ref for ref in refs}

        def request_for(led: Collection[Partition]) -> Any:
            wanted = DescribeProducersRequest.TopicRequest
            topics = [wanted(name=topic, partition_indexes=numbers) for topic, numbers in by_topic(led).items()]
            return DescribeProducersRequest(topics=topics)

        async def question(brokers: Connections) -> list[Unmarked]:
            answers = await ask_leaders(brokers, partitions, request_for, passed_over=_PASSED_OVER)
            return [
                Unmarked(partition, ref, one.coordinator_epoch)
                for partition, answer in answers.items()
                for one in answer.active_producers
                if (ref := by_producer.get((one.producer_id, one.producer_epoch))) is not None
                and one.current_txn_start_offset >= 0
            ]

        return self._brokers.ask(question, "see whether transactions have ended in their partitions")

    def write(self, missing: Collection[Unmarked], *, commit: bool) -> None:
        """Ends the transactions in those partitions. Only for what is known to have ended that way.

        Needs the right ClusterAction (or Alter) on the cluster.
        """
        by_partition: dict[Partition, list[Unmarked]] = defaultdict(list)
        for one in missing:
            by_partition[one.partition].append(one)

        def request_for(led: Collection[Partition]) -> Any:
            marker = WriteTxnMarkersRequest.WritableTxnMarker
            return WriteTxnMarkersRequest(
                markers=[
                    marker(
                        producer_id=one.ref.producer_id,
                        producer_epoch=one.ref.epoch,
                        transaction_result=commit,
                        topics=[marker.WritableTxnMarkerTopic(name=topic, partition_indexes=[number])],
                        coordinator_epoch=one.coordinator_epoch,
                    )
                    for topic, number in led
                    for one in by_partition[topic, number]
                ]
            )

        async def question(brokers: Connections) -> None:
            await ask_leaders(
                brokers,
                by_partition,
                request_for,
                passed_over=_PASSED_OVER,
                topics_of=lambda answer: (topic for marker in answer.markers for topic in marker.topics),
            )

        self._brokers.ask(question, "write the end of a transaction into a partition")
