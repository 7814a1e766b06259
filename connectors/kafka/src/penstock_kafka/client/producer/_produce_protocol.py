"""Kafka's produce request, and what its answer says of each partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka.protocol.producer import ProduceRequest

from penstock_kafka.client._errors import Code
from penstock_kafka.client.producer._partition_queue import InFlightBatch, PartitionQueue
from penstock_kafka.client.producer._settings import ProducerSettings

__all__ = ["Result", "produce_request", "results"]

#: An error code, and the broker's words for it.
Result = tuple[int, str]

_WRITTEN: Result = (Code.NONE, "")
_NO_ANSWER: Result = (Code.UNKNOWN_SERVER_ERROR, "the response does not mention it")


def produce_request(
    batches: Iterable[tuple[PartitionQueue, InFlightBatch]], settings: ProducerSettings
) -> ProduceRequest:
    """Asks a leader to write batches, one for each partition."""
    topics: dict[str, list[Any]] = {}
    data = ProduceRequest.TopicProduceData
    for queue, one in batches:
        part = data.PartitionProduceData(index=queue.partition, records=one.batch.data)
        topics.setdefault(queue.topic, []).append(part)
    return ProduceRequest(
        transactional_id=settings.transactional_id or None,
        acks=settings.acks,
        timeout_ms=settings.request_timeout_ms,
        topic_data=[data(name=topic, partition_data=parts) for topic, parts in topics.items()],
        # From version 11 on the end of a transaction is reported in another way (TRANSACTION_ABORTABLE), 12 adds
        # partitions to it by itself, 13 needs the topics' ids.
        max_version=10,
    )


def results(response: Any, queues: Iterable[PartitionQueue]) -> list[Result]:
    """Returns the outcome of the batch of each queue. Without acknowledgements (acks=0) there is no response."""
    if response is None:
        return [_WRITTEN for _ in queues]
    answers = {
        (topic.name, one.index): (one.error_code, one.error_message or "")
        for topic in response.responses
        for one in topic.partition_responses
    }
    return [answers.get((queue.topic, queue.partition), _NO_ANSWER) for queue in queues]
