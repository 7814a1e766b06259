"""Ending transactions from outside: what transaction coordinators are asked by others than the producer itself.

Client libraries keep these requests to themselves; kafka-python has their encodings and its connections know how to
authenticate. Protocol: Kafka's EndTxn, InitProducerId, ListTransactions, DescribeTransactions and OffsetFetch
requests; KIP-98 (transactions), KIP-664 (listing), KIP-890 (an epoch for each transaction).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, ListGroupsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest

from penstock.errors import BadConfigurationError, RetriableError
from penstock.per_process import PerProcess
from penstock_kafka.client._errors import Code
from penstock_kafka.client._interfaces import ClientConfig
from penstock_kafka.client._transactions import Ended, OpenTransaction, Proof, TransactionRef
from penstock_kafka.client.broker._errors import raise_for
from penstock_kafka.client.broker._features import LISTING_TRANSACTIONS, Feature, require
from penstock_kafka.client.broker._groups import ask_for_offsets, committed_offsets
from penstock_kafka.client.broker._kafka_python import IN_FLIGHT, find_coordinators
from penstock_kafka.client.broker._markers import Markers
from penstock_kafka.client.broker._pool import Connections, Settings
from penstock_kafka.client.broker._retrying import RetryingBrokers

__all__ = ["Coordinators", "coordinators"]

#: A coordinator that stands still answers nothing, while another broker has long taken its place.
_FIRST_TRY_S = 3.0
#: A partition of it for each coordinator of consumer groups.
_GROUPS_TOPIC = "__consumer_offsets"
#: Transactions that are ended together, at most.
_TOGETHER = IN_FLIGHT
#: The type of a broker's settings in Kafka's protocol (``ConfigResource.Type``).
_BROKER_RESOURCE = 4
#: The transaction is over or was never known: committed, aborted, timed out or fenced. Its proof tells which.
_OVER = (
    Code.INVALID_TXN_STATE,
    Code.INVALID_PRODUCER_EPOCH,
    Code.PRODUCER_FENCED,
    Code.INVALID_PRODUCER_ID_MAPPING,
    Code.TRANSACTIONAL_ID_NOT_FOUND,
)
#: Answers to the question for a stable offset.
_TELLING = {
    *(Code.NONE, Code.UNSTABLE_OFFSET_COMMIT),
    *(Code.UNKNOWN_TOPIC_OR_PARTITION, Code.GROUP_ID_NOT_FOUND),
}


class Coordinators:
    """What coordinators are asked. Thread-safe; connects when first asked, with settings in librdkafka's spelling.

    Every method asks again for up to a minute while a broker is away, busy or no longer the coordinator, then raises
    :class:`penstock.errors.RetriableError`; refusals are :class:`penstock.errors.BadConfigurationError`.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._brokers = RetryingBrokers(config, first_try_s=_FIRST_TRY_S)
        self.markers = Markers(self._brokers)
        self._can_list: bool | None = None
        #: Ids of earlier runs whose producers were shut out, and when, for those who can't list transactions.
        self.shut_out: dict[str, float] = {}

    def require(self, feature: Feature) -> None:
        """Raises BadConfigurationError, which says what to do instead, if the brokers can't do it."""
        self._brokers.require(feature)

    def can_list(self) -> bool:
        """Returns whether transactions can be listed and described (KIP-664)."""
        if self._can_list is None:
            self._can_list = self._brokers.has(LISTING_TRANSACTIONS)
        return self._can_list

    # --- ending -------------------------------------------------------------------------------------------------------

    def end(self, transactions: Sequence[TransactionRef], *, commit: bool) -> list[Ended]:
        """Commits or aborts each; requests travel together, so that all end at nearly the same moment. Idempotent."""
        answers: dict[TransactionRef, Ended] = {}

        async def question(brokers: Connections) -> list[Ended]:
            while left := [ref for ref in transactions if ref not in answers][:_TOGETHER]:
                unanswered = int(Code.NONE)
                for ref, code in zip(left, await self._end_all(brokers, left, commit), strict=True):
                    if code == Code.NONE:
                        answers[ref] = Ended.DONE
                    elif code in _OVER:
                        answers[ref] = Ended.OVER
                    else:
                        unanswered = code
                raise_for(unanswered, f"while ending {len(left)} transactions")
            return [answers[ref] for ref in transactions]

        return self._brokers.ask(question, "end transactions")

    async def _end_all(self, brokers: Connections, refs: Sequence[TransactionRef], commit: bool) -> list[int]:
        nodes = await _find(brokers, [ref.transactional_id for ref in refs])
        # Sent before the first answer is awaited.
        sent = [
            brokers.send(
                EndTxnRequest(
                    transactional_id=ref.transactional_id,
                    producer_id=ref.producer_id,
                    producer_epoch=ref.epoch,
                    committed=commit,
                ),
                nodes[ref.transactional_id],
            )
            for ref in refs
        ]
        return [(await answer).error_code for answer in sent]

    def fence(self, *transactional_ids: str) -> None:
        """Aborts whatever is open under the ids and shuts their producers out, as new producers would."""
        fenced: set[str] = set()

        async def question(brokers: Connections) -> None:
            while left := [one for one in transactional_ids if one not in fenced][:_TOGETHER]:
                codes = await self._init_producer_ids(brokers, left)
                fenced.update(one for one, code in zip(left, codes, strict=True) if not code)
                for one, code in zip(left, codes, strict=True):
                    raise_for(code, f"while fencing '{one}'")

        if transactional_ids:
            self._brokers.ask(question, "fence a producer")

    async def _init_producer_ids(self, brokers: Connections, transactional_ids: Sequence[str]) -> list[int]:
        nodes = await _find(brokers, transactional_ids)
        sent = [brokers.send(_registration(one), nodes[one]) for one in transactional_ids]
        return [int((await answer).error_code) for answer in sent]

    # --- looking ------------------------------------------------------------------------------------------------------

    def open_ids(self, owns: Callable[[str], bool]) -> list[str]:
        """Ids with an open transaction for which ``owns`` is true, on all brokers. Nothing is touched."""

        async def question(brokers: Connections) -> list[str]:
            require(brokers.client, LISTING_TRANSACTIONS)
            found: set[str] = set()
            for node in brokers.client.nodes():
                request = ListTransactionsRequest(state_filters=["Ongoing"], producer_id_filters=[], max_version=0)
                answer = await brokers.send(request, node)
                raise_for(answer.error_code, f"while listing the transactions of broker {node}")
                found.update(one.transactional_id for one in answer.transaction_states)
            return sorted(filter(owns, found))

        return self._brokers.ask(question, "list transactions")

    def describe(self, transactional_ids: Collection[str]) -> dict[str, OpenTransaction]:
        """Returns the state of each id, one request for each coordinator; ids that it does not know are left out."""
        wanted = sorted(set(transactional_ids))

        async def question(brokers: Connections) -> dict[str, OpenTransaction]:
            require(brokers.client, LISTING_TRANSACTIONS)
            by_node: dict[int, list[str]] = {}
            for transactional_id, node in (await _find(brokers, wanted)).items():
                by_node.setdefault(node, []).append(transactional_id)
            send = brokers.send
            sent = [send(DescribeTransactionsRequest(transactional_ids=ids), node) for node, ids in by_node.items()]
            found: dict[str, OpenTransaction] = {}
            for answer in sent:
                for one in (await answer).transaction_states:
                    if one.error_code != Code.TRANSACTIONAL_ID_NOT_FOUND:
                        raise_for(one.error_code, f"while describing '{one.transactional_id}'")
                        found[one.transactional_id] = _open_transaction(one)
            return found

        return self._brokers.ask(question, "describe transactions") if wanted else {}

    def await_loaded(self, transactional_ids: Collection[str]) -> None:
        """Returns when the coordinators of the ids, which no producer may have, can be asked about them."""
        if self.can_list():
            self.describe(transactional_ids)
            return

        async def question(brokers: Connections) -> None:
            # To end a transaction of an id that it does not know is refused, after a coordinator has loaded its part.
            for code in await self._end_all(brokers, [TransactionRef(one, 0, 0) for one in transactional_ids], False):
                if code not in _OVER:
                    raise_for(code, "while looking for coordinators of transactions")

        self._brokers.ask(question, "find the coordinators of transactions")

    def proofs(self, groups: Collection[str]) -> dict[str, Proof]:
        """Returns what the transactions of each consumer group last committed to it; groups without anything are left
        out.
        """

        async def question(brokers: Connections) -> dict[str, Proof]:
            found: dict[str, Proof] = {}
            for group in groups:  # one by one: brokers before 3.0 take no more
                if offsets := await committed_offsets(brokers, group):
                    last = max(offsets.values(), key=lambda proof: proof.offset)
                    # confluent-kafka ends the text as C does, with a zero.
                    found[group] = Proof(last.offset, last.metadata.rstrip("\0"))
            return found

        return self._brokers.ask(question, "read consumer group offsets")

    def await_group_coordinators(self, group: str) -> None:
        """Returns when consumer groups have coordinators: brokers make them when they are first asked for one.

        ``group`` is any that may be described.
        """
        try:
            self.proofs([group])
        except RetriableError as error:
            raise RetriableError(
                f"{error}. A cluster with fewer brokers than its setting offsets.topic.replication.factor has no "
                "coordinators for consumer groups"
            ) from error
        self.markers.partitions_of([_GROUPS_TOPIC])

    def groups(self, owns: Callable[[str], bool]) -> list[str]:
        """Consumer groups for which ``owns`` is true, on all brokers: those that may be described."""

        async def question(brokers: Connections) -> list[str]:
            nodes = brokers.client.nodes()
            sent = [brokers.send(ListGroupsRequest(max_version=2), node) for node in nodes]
            found: set[str] = set()
            for node, answer in zip(nodes, sent, strict=True):
                raise_for((await answer).error_code, f"while listing the consumer groups of broker {node}")
                found.update(one.group_id for one in (await answer).groups)
            return sorted(filter(owns, found))

        return self._brokers.ask(question, "list consumer groups")

    def pending(self, groups: Mapping[str, Collection[str]]) -> set[str]:
        """Returns those of the groups to which an open transaction is to commit an offset, or one that is ending.

        ``groups`` maps each to the topics of which it may be: an offset of their first partition.
        """

        async def question(brokers: Connections) -> set[str]:
            sent = {
                group: await ask_for_offsets(brokers, group, [(topic, 0) for topic in topics], stable=True)
                for group, topics in groups.items()
            }
            found: set[str] = set()
            for group, answer in sent.items():
                codes = {one.error_code for topic in (await answer).topics for one in topic.partitions}
                for code in {(await answer).error_code, *codes} - _TELLING:
                    raise_for(code, f"while asking for offsets of the consumer group '{group}'")
                if Code.UNSTABLE_OFFSET_COMMIT in codes:
                    found.add(group)
            return found

        return self._brokers.ask(question, "read consumer group offsets") if groups else set()

    def broker_setting(self, name: str) -> str | None:
        """Returns a broker's setting, the same on all of them by custom; ``None`` if it may not be read."""

        async def question(brokers: Connections) -> str | None:
            node = brokers.client.nodes()[0]
            wanted = DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_BROKER_RESOURCE, resource_name=str(node), configuration_keys=[name]
            )
            answer = await brokers.send(DescribeConfigsRequest(resources=[wanted]), node)
            for one in answer.results:
                raise_for(one.error_code, f"while asking broker {node} for its settings")
            values = [config.value for one in answer.results for config in one.configs]
            return str(values[0]) if values and values[0] is not None else None

        try:
            return self._brokers.ask(question, "read the brokers' settings")
        except BadConfigurationError:
            return None

    def close(self) -> None:
        """Closes the connections; the next request reopens them."""
        self._brokers.close()


async def _find(brokers: Connections, transactional_ids: Collection[str]) -> dict[str, Any]:
    return await find_coordinators(brokers.client, CoordinatorType.TRANSACTION, transactional_ids)


def _registration(transactional_id: str) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=10_000, producer_id=-1, producer_epoch=-1
    )


def _open_transaction(one: Any) -> OpenTransaction:
    ref = TransactionRef(one.transactional_id, one.producer_id, one.producer_epoch)
    partitions = tuple(sorted((topic.topic, number) for topic in one.topics for number in topic.partitions))
    started_ms, timeout_ms = one.transaction_start_time_ms, one.transaction_timeout_ms
    return OpenTransaction(ref, one.transaction_state, started_ms, timeout_ms, partitions)


#: Kept, since a process commits batch after batch. One that is closed connects again when it is asked.
_kept = PerProcess[Settings, Coordinators](lambda settings: Coordinators(dict(settings)), close=Coordinators.close)


def coordinators(settings: Settings) -> Coordinators:
    """Returns this process's connections with ``settings``, in librdkafka's spelling."""
    return _kept.get(settings)
