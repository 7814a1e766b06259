"""What consumer groups have committed: requested from their coordinators, and set for groups without members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka.future import Future
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType

from penstock_kafka.client._errors import Code
from penstock_kafka.client._transactions import Partition, Proof
from penstock_kafka.client.broker._errors import raise_for
from penstock_kafka.client.broker._kafka_python import find_coordinators
from penstock_kafka.client.broker._partitions import by_topic
from penstock_kafka.client.broker._pool import Connections

__all__ = ["ask_for_offsets", "commit_offsets", "committed_offsets"]


async def committed_offsets(
    brokers: Connections, group: str, partitions: Iterable[Partition] | None = None
) -> dict[Partition, Proof]:
    """Returns what a group has committed for the partitions, or for all. Those without anything are left out.

    Belongs to the loop.
    """
    answer = await (await ask_for_offsets(brokers, group, partitions))
    # Apache's brokers answer for a group that they don't know as for one without offsets; others say so.
    if answer.error_code == Code.GROUP_ID_NOT_FOUND:
        return {}
    raise_for(answer.error_code, f"while asking for offsets of the consumer group '{group}'")
    found = {}
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code != Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise_for(one.error_code, f"while asking for the offset of {topic.name}-{one.partition_index}")
            if one.committed_offset >= 0:
                found[topic.name, one.partition_index] = Proof(one.committed_offset, one.metadata or "")
    return found


async def ask_for_offsets(
    brokers: Connections, group: str, partitions: Iterable[Partition] | None, *, stable: bool = False
) -> Future:
    """Returns a future of the coordinator's answer. ``stable``: an offset that an open transaction is to replace is
    answered as an error. Belongs to the loop.
    """
    wanted = OffsetFetchRequest.OffsetFetchRequestTopic
    topics = None
    if partitions is not None:
        topics = [wanted(name=topic, partition_indexes=numbers) for topic, numbers in by_topic(partitions).items()]
    # Version 7 is the last for a single group, and the last that brokers before 3.0 know.
    first = 7 if stable else 2
    request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable, min_version=first, max_version=7)
    return brokers.send(request, await _coordinator(brokers, group))


async def commit_offsets(brokers: Connections, group: str, offsets: Mapping[Partition, int]) -> None:
    """Commits for a group that has no members. Topics that do not exist are passed over. Belongs to the loop."""
    wanted = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = wanted.OffsetCommitRequestPartition
    topics = [
        wanted(
            name=topic,
            partitions=[
                partition(partition_index=number, committed_offset=offsets[topic, number], committed_metadata="")
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    # Version 8 is the last that names topics in all of them.
    request = OffsetCommitRequest(group_id=group, member_id="", topics=topics, max_version=8)
    answer = await brokers.send(request, await _coordinator(brokers, group))
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code != Code.UNKNOWN_TOPIC_OR_PARTITION:
                raise_for(one.error_code, f"while committing for {topic.name}-{one.partition_index}")


async def _coordinator(brokers: Connections, group: str) -> int:
    nodes = await find_coordinators(brokers.client, CoordinatorType.GROUP, [group])
    return int(nodes[group])
