"""What the leaders of partitions are asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any

from penstock_kafka.client._errors import Code
from penstock_kafka.client._transactions import Partition
from penstock_kafka.client.broker._errors import raise_for
from penstock_kafka.client.broker._pool import Connections

__all__ = ["UNKNOWN_TOPIC", "ask_leaders", "by_topic"]

#: A topic does not exist, says a broker that knows all of them.
UNKNOWN_TOPIC = frozenset((Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID))


async def ask_leaders(
    brokers: Connections,
    partitions: Collection[Partition],
    request_for: Callable[[Collection[Partition]], Any],
    *,
    passed_over: Collection[int] = (),
    topics_of: Callable[[Any], Iterable[Any]] = lambda answer: answer.topics,
) -> dict[Partition, Any]:
    """Sends each leader the request for what it leads. Returns each partition's part of the answers.

    Partitions that do not exist are left out, and those for which an error code of ``passed_over`` is answered.
    ``topics_of`` finds the topics in an answer. Belongs to the loop.
    """
    leaders = brokers.leaders
    if unknown := {topic for topic, number in partitions if leaders.node_of(topic, number) is None}:
        await leaders.refresh_metadata(brokers.client, unknown)
    led: dict[int, list[Partition]] = defaultdict(list)
    for topic, number in partitions:
        node, problem = leaders.node_of(topic, number), leaders.problem_of(topic)
        if node is not None:
            led[node].append((topic, number))
        elif problem not in UNKNOWN_TOPIC and problem not in passed_over:
            raise_for(problem, f"{topic}-{number}")
    # Sent before the first answer is awaited.
    sent = [brokers.send(request_for(some), node) for node, some in led.items()]
    found = {}
    for answer in sent:
        for topic in topics_of(await answer):
            for one in topic.partitions:
                if one.error_code in passed_over:
                    continue
                if one.error_code:
                    # Also where the broker does not know the partition: it may have moved, or be gone.
                    leaders.forget(topic.name)
                    raise_for(one.error_code, f"{topic.name}-{one.partition_index}")
                found[topic.name, one.partition_index] = one
    return found


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Topic → the numbers of its partitions."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        numbers[topic].append(number)
    return numbers
