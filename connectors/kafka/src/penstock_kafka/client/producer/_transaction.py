"""What a producer asks its coordinators: an identity, and to take part in a transaction (KIP-98).

Spoken as of transactions before KIP-890's second part, which every broker understands: partitions and groups are added
before they are written to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from kafka.errors import KafkaError, KafkaTimeoutError, RequestTimedOutError
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from penstock_kafka.client._errors import Code
from penstock_kafka.client._interfaces import ProducerIdentity
from penstock_kafka.client.broker import (
    Connections,
    ProblemError,
    by_topic,
    find_coordinators,
    problem_of_code,
    raise_for,
)
from penstock_kafka.client.producer._settings import ProducerSettings

__all__ = ["NO_IDENTITY", "TransactionRequests", "new_identity"]

NO_IDENTITY = ProducerIdentity(-1, -1)
_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.2
#: How long the first try of a request waits, and each next one twice as long as the previous: a broker that stands
#: still answers nothing and keeps its connections, while another one has long become the coordinator. Every request
#: here may be made twice.
_FIRST_TRY_MS = 3_000.0
_NOT_COORDINATOR = (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)

Attempt = Callable[[float], Coroutine[Any, Any, Any]]


async def _persist(connections: Connections, deadline: float, attempt: Attempt) -> Any:
    """Returns the result of ``attempt(timeout_ms)``, tried again while what keeps it back may pass, or is silent.

    Belongs to the loop. Raises :class:`ProblemError`: for good, or (``timed_out``) what kept it back until the
    ``deadline``.
    """
    pause, try_ms = _PAUSE_S, _FIRST_TRY_MS
    while True:
        try:
            return await attempt(min(try_ms, (deadline - time.monotonic()) * 1000))
        except (KafkaError, OSError) as error:
            if isinstance(error, (KafkaTimeoutError, RequestTimedOutError)):
                try_ms *= 2
            problem = connections.problem_of(error)
            if not problem.retriable:
                raise ProblemError(problem) from error
            if time.monotonic() + pause > deadline:
                raise ProblemError(problem, timed_out=True) from error
        await connections.client.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_S)


async def new_identity(connections: Connections, timeout_ms: float) -> ProducerIdentity:
    """Asks for an identity without transactions, a new one each time. In the loop; raises kafka-python's errors."""
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1, max_version=4
    )
    answer = await connections.send(request, None, timeout_ms)
    raise_for(answer.error_code, "while asking for a producer id")
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


class TransactionRequests:
    """The requests of one transactional producer, from any thread; the async ones in the connections' loop.

    Each tries again until its time is over. Raises :class:`ProblemError`.
    """

    def __init__(self, connections: Connections, settings: ProducerSettings) -> None:
        self._connections = connections
        self._id = settings.transactional_id
        self._timeout_ms = settings.transaction_timeout_ms
        self._missing_s = settings.missing_s
        self._coordinator: Any = None
        self._unanswered = False
        self.identity = NO_IDENTITY

    def register(self, deadline: float) -> ProducerIdentity:
        """Fences the earlier user of the transactional id, and ends what it left open.

        The identity is ``in_doubt`` if a request was repeated because none answered.
        """
        self.identity = self._connections.client.run(_persist, self._connections, deadline, self._register)
        return self.identity

    async def _register(self, timeout_ms: float) -> ProducerIdentity:
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
            max_version=4,
        )
        answer = await self._ask(request, timeout_ms)
        self._raise(answer.error_code, "while registering the transactional id")
        return ProducerIdentity(answer.producer_id, answer.producer_epoch, in_doubt=self._unanswered)

    async def add_partitions(self, partitions: Collection[tuple[str, int]], deadline: float) -> None:
        """Makes the partitions a part of the transaction: what is written to them from now on belongs to it."""
        wanted = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        topics = [wanted(name=topic, partitions=numbers) for topic, numbers in by_topic(sorted(partitions)).items()]

        async def attempt(timeout_ms: float) -> None:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=self.identity.producer_id,
                v3_and_below_producer_epoch=self.identity.epoch,
                v3_and_below_topics=topics,
                max_version=3,
            )
            answer = await self._ask(request, timeout_ms)
            codes = {
                one.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            }
            # Where one is refused, the others are said not to have been attempted.
            for code in sorted(codes - {Code.NONE, Code.OPERATION_NOT_ATTEMPTED}) or sorted(codes - {Code.NONE}):
                self._raise(code, "while adding partitions to the transaction")

        await _persist(self._connections, deadline, attempt)

    def send_offset(self, group: str, topic: str, partition: int, offset: int, metadata: str, deadline: float) -> None:
        """Commits one offset of a group as a part of the transaction.

        A missing topic is waited for no longer than records wait for it.
        """
        missing_at = time.monotonic() + self._missing_s

        async def add(timeout_ms: float) -> None:
            request = AddOffsetsToTxnRequest(
                **self._identified(),
                group_id=group,
                max_version=3,
            )
            answer = await self._ask(request, timeout_ms)
            self._raise(answer.error_code, f"while adding group '{group}' to the transaction")

        async def commit(timeout_ms: float) -> None:
            client = self._connections.client
            nodes = await client.within(timeout_ms, find_coordinators, client, CoordinatorType.GROUP, [group])
            wanted = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
            place = wanted.TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=-1,
                committed_metadata=metadata,
            )
            request = TxnOffsetCommitRequest(
                **self._identified(),
                group_id=group,
                generation_id=-1,
                member_id="",
                group_instance_id=None,
                topics=[wanted(name=topic, partitions=[place])],
                max_version=3,
            )
            answer = await self._connections.send(request, nodes[group], timeout_ms)
            for of_topic in answer.topics:
                for one in of_topic.partitions:
                    if one.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION and time.monotonic() > missing_at:
                        raise ProblemError(
                            problem_of_code(Code.UNKNOWN_TOPIC_OR_PARTITION, topic=topic, partition=partition)
                        )
                    raise_for(one.error_code, f"while committing an offset of group '{group}'")

        self._connections.client.run(_persist, self._connections, deadline, add)
        self._connections.client.run(_persist, self._connections, deadline, commit)

    def abort(self, deadline: float) -> None:
        """Ends the transaction, which must have parts."""

        async def attempt(timeout_ms: float) -> None:
            request = EndTxnRequest(
                **self._identified(),
                committed=False,
                max_version=4,
            )
            answer = await self._ask(request, timeout_ms)
            self._raise(answer.error_code, "while aborting the transaction")

        self._connections.client.run(_persist, self._connections, deadline, attempt)

    def _identified(self) -> dict[str, Any]:
        """Returns what every request within the transaction says of it."""
        return {
            "transactional_id": self._id,
            "producer_id": self.identity.producer_id,
            "producer_epoch": self.identity.epoch,
        }

    async def _ask(self, request: Any, timeout_ms: float) -> Any:
        if self._coordinator is None:
            client = self._connections.client
            found = await client.within(timeout_ms, find_coordinators, client, CoordinatorType.TRANSACTION, [self._id])
            self._coordinator = found[self._id]
        try:
            return await self._connections.send(request, self._coordinator, timeout_ms)
        except (KafkaError, OSError):
            self._coordinator = None  # it may have moved
            self._unanswered = True
            raise

    def _raise(self, code: int, doing: str) -> None:
        if code in _NOT_COORDINATOR:
            self._coordinator = None
        raise_for(code, doing)
