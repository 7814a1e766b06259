"""Sends batches to the leaders of their partitions, several requests at a time. Partition queues keep their order."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaError, RequestTimedOutError

from penstock.printable import get_logger
from penstock_kafka.client._errors import Code, Problem
from penstock_kafka.client._held_back import HeldBack
from penstock_kafka.client.broker import (
    IDENTITY_LOST,
    MAYBE_WRITTEN,
    SILENT_S,
    WRITTEN,
    Connections,
    ProblemError,
    is_refusal,
    problem_of_code,
)
from penstock_kafka.client.codec import SealedBatch, compress, decompress, halves
from penstock_kafka.client.producer._deliveries import Deliveries
from penstock_kafka.client.producer._loop import on_loop
from penstock_kafka.client.producer._partition_queue import InFlightBatch, PartitionQueue
from penstock_kafka.client.producer._produce_protocol import produce_request, results
from penstock_kafka.client.producer._settings import ProducerSettings
from penstock_kafka.client.producer._transaction import NO_IDENTITY, TransactionRequests, new_identity

__all__ = ["Sender"]

_log = get_logger("penstock.kafka")

#: Bytes of a request, unless a single batch is larger.
_REQUEST_BYTES = 4 << 20
_TICK_S = 0.25
#: No time limit of the library's: what a broker holds back may take longer than a request.
_UNLIMITED_MS = 86_400_000.0
_WATCH_S = 1.0
_REFRESH_PAUSE_S = 0.05


@dataclass
class _Asked:
    """A request in flight: to which node, since when and until when, and for which partitions."""

    node: int
    since: float
    deadline: float
    keys: list[tuple[str, int]]


class Sender:
    """Sends the batches of one producer. Works in the connections' loop; other threads submit and wait."""

    def __init__(
        self,
        connections: Connections,
        settings: ProducerSettings,
        transaction: TransactionRequests | None,
        on_idle: Callable[[], None],
        on_too_large: Callable[[int], None],
    ) -> None:
        self.deliveries = Deliveries(settings, lambda: connections.is_broken)
        self._connections = connections
        self._settings = settings
        self._transaction = transaction
        #: Both are called in the loop: they must not wait for room, nor for a lock held while encoding.
        self._on_idle = on_idle
        self._on_too_large = on_too_large

        # The rest is the loop's own: without a lock, so another thread must not even read it, except for
        # ``has_txn_partitions``, which is asked once the loop has nothing in flight.
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        #: Queues with batches waiting, in the order of their turns.
        self._ready: dict[tuple[str, int], PartitionQueue] = {}
        #: Requests in flight, by node.
        self._in_flight: dict[Any, int] = {}
        #: What they are, by a number of their own.
        self._requests: dict[int, _Asked] = {}
        self._numbers = count()
        self._is_watching = False
        #: Until when nodes take nothing, because a quota is used up.
        self._held_until: dict[int, float] = {}
        self.held_back = HeldBack("writing")
        #: Changed only while nothing is in flight: what is has the numbers of the identity before.
        self._identity = NO_IDENTITY
        self._asking_identity = False
        #: Partitions that the coordinator knows to be a part of the transaction. Nothing may be written to another one:
        #: it would be outside of the transaction, and stay when that is aborted.
        self._txn_partitions: set[tuple[str, int]] = set()
        #: Those that the coordinator is being asked to add.
        self._adding: set[tuple[str, int]] = set()
        self._is_refreshing = False
        self._ticking = False
        #: Guards against ``_pump`` within ``_pump``: an answer may come before the request's call has returned.
        self._is_sending = False
        self._last_problem: Problem | None = None

    # --- any thread ---------------------------------------------------------------------------------------------------

    def submit(self, batch: SealedBatch, *, wait: bool = True) -> None:
        """Queues a batch, and waits for room if ``wait``. Drops it once nothing is delivered any more."""
        plain_bytes, attributes = len(batch.data), self._compress(batch)
        if self.deliveries.add(batch, attributes, plain_bytes, wait=wait):
            self._connections.client.call_soon(self._pump)

    def _compress(self, batch: SealedBatch) -> int:
        """Compresses the batch. Returns the attributes that say so."""
        batch.data, attributes = compress(batch.data, self._settings.compression, self._settings.compression_level)
        return attributes

    @property
    def has_txn_partitions(self) -> bool:
        """Whether the transaction has partitions, or is being given some."""
        return bool(self._txn_partitions or self._adding)

    def stop(self, timeout_s: float) -> bool:
        """Sends nothing more. Returns whether what was in flight is back within that time."""
        self.deliveries.stop()
        if self.deliveries.is_idle or timeout_s <= 0:
            return self.deliveries.is_idle
        self._connections.client.call_soon(self._pump)
        return self.deliveries.await_idle(timeout_s)

    # --- the loop: what to send ---------------------------------------------------------------------------------------

    @on_loop
    def _pump(self) -> None:
        for one in self.deliveries.take():
            key = (one.batch.topic, one.batch.partition)
            queue = self._queues.get(key)
            if queue is None:
                queue = self._queues[key] = PartitionQueue(*key)
            queue.waiting.append(one)
            self._ready[key] = queue
        if self.deliveries.is_stopped:
            self._drop_waiting()
            return
        if not self._ready or self._is_sending:
            return
        if not self._ticking:
            self._ticking = True
            self._connections.client.call_later(_TICK_S, self._tick)
        if self._is_identified():
            self._add_txn_partitions()
            self._is_sending = True
            try:
                while self._send_round():
                    pass
            finally:
                self._is_sending = False

    def _is_identified(self) -> bool:
        if not self._settings.idempotent or self._identity != NO_IDENTITY:
            return True
        if self._transaction is not None:
            self._identity = self._transaction.identity
            return True
        # What is in flight still has the numbers of the identity before.
        if not self._asking_identity and not any(self._in_flight.values()):
            self._asking_identity = True
            self._connections.client.call_soon(self._ask_identity)
        return False

    @on_loop
    async def _ask_identity(self) -> None:
        try:
            identity = await new_identity(self._connections, self._settings.request_timeout_ms)
        except (KafkaError, OSError) as error:
            self._note_error(error)
            await self._connections.client.sleep(_REFRESH_PAUSE_S)
        else:
            for queue in self._queues.values():
                queue.forget_numbers()
            self._identity = identity
        self._asking_identity = False
        self._pump()

    def _add_txn_partitions(self) -> None:
        if self._transaction is None or self._adding:
            return
        new = self._ready.keys() - self._txn_partitions
        if new:
            self._adding = new
            self._connections.client.call_soon(self._add_to_transaction, self._transaction, new)

    @on_loop
    async def _add_to_transaction(self, transaction: TransactionRequests, new: set[tuple[str, int]]) -> None:
        try:
            await transaction.add_partitions(new, time.monotonic() + self._settings.delivery_timeout_ms / 1000)
        except ProblemError as error:
            topic, partition = min(new)
            code = "_MSG_TIMED_OUT" if error.timed_out else error.problem.code
            of_no_topic = code == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
            self.deliveries.fail(Problem(code, error.problem.text, topic=topic, partition=partition), event=of_no_topic)
        else:
            self._txn_partitions |= new
        self._adding = set()
        self._pump()

    def _send_round(self) -> bool:
        """Sends one request to each broker that may get one. Returns whether there was any."""
        now = time.monotonic()
        requests: dict[int, list[tuple[PartitionQueue, InFlightBatch]]] = {}
        sizes: dict[int, int] = {}
        leaderless: set[str] = set()
        for key, queue in list(self._ready.items()):
            if not queue.waiting:
                del self._ready[key]
                continue
            if not queue.may_send(now):
                continue
            if self._transaction is not None and key not in self._txn_partitions:
                continue
            node = self._connections.leaders.node_of(*key)
            if node is None:
                leaderless.add(queue.topic)
                continue
            size = len(queue.waiting[0].batch.data)
            if self._in_flight.get(node, 0) >= self._settings.in_flight or self._is_held_back(node, now):
                continue
            if node in sizes and sizes[node] + size > _REQUEST_BYTES:
                continue
            sizes[node] = sizes.get(node, 0) + size
            settings, transactional = self._settings, self._transaction is not None
            one = queue.start(self._identity, numbered=settings.idempotent, transactional=transactional)
            requests.setdefault(node, []).append((queue, one))
            # A queue that has had its turn goes after the others.
            del self._ready[key]
            if queue.waiting:
                self._ready[key] = queue
        if leaderless and not self._is_refreshing:
            self._is_refreshing = True
            self._connections.client.call_soon(self._refresh_metadata, leaderless)
        for node, batches in requests.items():
            self._send(node, batches)
        return bool(requests)

    def _send(self, node: int, batches: list[tuple[PartitionQueue, InFlightBatch]]) -> None:
        number = next(self._numbers)
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        now, keys = time.monotonic(), [(queue.topic, queue.partition) for queue, _ in batches]
        self._requests[number] = _Asked(node, now, now + self._settings.request_timeout_ms / 1000, keys)
        if not self._is_watching:
            self._is_watching = True
            self._watch_later()
        request = produce_request(batches, self._settings)
        answer = self._connections.send(request, node, _UNLIMITED_MS)
        answer.add_callback(lambda response: self._on_answer(number, batches, response))
        answer.add_errback(lambda error: self._on_failure(number, batches, error))

    def _is_held_back(self, node: int, now: float) -> bool:
        """Returns whether the node takes nothing at the moment. Adds that time to every time limit, once."""
        client = self._connections.client
        until = client.held_back_until(node)
        if (longer := until - max(now, self._held_until.get(node, 0.0))) > 0:
            self._held_until[node] = until
            self.held_back.note(f"broker {node}", longer)
            for asked in self._requests.values():
                asked.deadline += longer if asked.node == node else 0.0
            for key, queue in self._queues.items():
                if self._connections.leaders.node_of(*key) == node:
                    for one in (*queue.waiting, *queue.in_flight):
                        one.deadline += longer
            client.call_later(longer, self._pump)
        return until > now

    def _watch_later(self) -> None:
        pause_s = min(_WATCH_S, self._settings.request_timeout_ms / 4000)
        self._connections.client.call_later(pause_s, self._watch)

    @on_loop
    def _watch(self) -> None:
        """Ends connections to brokers that have not answered in time, and looks for the successors of those that are
        silent. As long as something is in flight.
        """
        now = time.monotonic()
        for node in {asked.node for asked in self._requests.values() if now > asked.deadline}:
            seconds = self._settings.request_timeout_ms / 1000
            self._connections.client.disconnect(node, RequestTimedOutError(f"no answer within {seconds:g} s"))
        silent = {asked.node for asked in self._requests.values() if now - asked.since > SILENT_S}
        if silent := {node for node in silent if not self._is_held_back(node, now)}:
            self._connections.client.call_soon(self._look_for_successors, silent)
        elif self._requests:
            self._watch_later()
        else:
            self._is_watching = False

    @on_loop
    async def _look_for_successors(self, silent: set[int]) -> None:
        """Gives up requests to brokers that have lost a partition of theirs: they are sent again, to its leader.

        A broker that stands still keeps its connections: only the others know that it has lost its partitions.
        """
        client, leaders = self._connections.client, self._connections.leaders
        topics = {topic for asked in self._requests.values() if asked.node in silent for topic, _ in asked.keys}
        with suppress(KafkaError, OSError):
            await client.within(SILENT_S * 1000, leaders.refresh_metadata, client, topics, SILENT_S * 1000)
        for node in silent:
            keys = [key for asked in self._requests.values() if asked.node == node for key in asked.keys]
            if leaders.have_left(node, keys):
                why = f"broker {node} does not answer, and another one has taken its place"
                client.disconnect(node, KafkaConnectionError(why))
        self._watch_later()

    @on_loop
    async def _refresh_metadata(self, topics: set[str]) -> None:
        leaders, settings = self._connections.leaders, self._settings
        try:
            client, timeout_ms = self._connections.client, settings.request_timeout_ms
            await leaders.refresh_metadata(client, topics, timeout_ms, settings.creates_topics)
        except (KafkaError, OSError) as error:
            self._note_error(error)
        else:
            self._fail_missing(topics)
        await self._connections.client.sleep(_REFRESH_PAUSE_S)
        self._is_refreshing = False
        self._pump()

    def _fail_missing(self, topics: set[str]) -> None:
        """Fails batches for which the brokers have just said that there is no leader, and will not be."""
        now, leaders = time.monotonic(), self._connections.leaders
        for queue in list(self._ready.values()):
            if queue.topic not in topics or queue.in_flight or not queue.waiting:
                continue
            if leaders.node_of(queue.topic, queue.partition) is None:
                code = leaders.problem_of(queue.topic) or Code.UNKNOWN_TOPIC_OR_PARTITION
                first, is_unknown = queue.waiting[0], code == Code.UNKNOWN_TOPIC_OR_PARTITION
                is_missing = is_unknown and first.is_missing(now, self._settings.missing_s)
                if is_missing or not problem_of_code(code).retriable:
                    self._fail_batch(queue, first, code, "")

    # --- the loop: the outcome ----------------------------------------------------------------------------------------

    @on_loop
    def _on_answer(self, number: int, batches: list[tuple[PartitionQueue, InFlightBatch]], response: Any) -> None:
        node = self._requests.pop(number).node
        self._in_flight[node] -= 1
        self._is_held_back(node, time.monotonic())  # the answer may say so
        of_batches = results(response, [queue for queue, _ in batches])
        for (queue, batch), (code, text) in zip(batches, of_batches, strict=True):
            self._handle_result(queue, batch, code, text)
        self._continue()

    @on_loop
    def _on_failure(
        self, number: int, batches: list[tuple[PartitionQueue, InFlightBatch]], error: BaseException
    ) -> None:
        self._in_flight[self._requests.pop(number).node] -= 1
        self._note_error(error)
        for queue, one in batches:
            self._connections.leaders.forget(queue.topic)
            one.is_uncertain = True
            self._put_back(queue, one)
        self._continue()

    def _handle_result(self, queue: PartitionQueue, one: InFlightBatch, code: int, text: str) -> None:
        problem = problem_of_code(code, text=text) if code else None
        if code in WRITTEN:
            queue.acknowledge(one)
            self.deliveries.finish(one)
        elif code == Code.UNKNOWN_TOPIC_OR_PARTITION and one.is_missing(time.monotonic(), self._settings.missing_s):
            self._fail_batch(queue, one, code, text)
        elif problem is not None and problem.retriable:
            self._last_problem = problem
            self._connections.leaders.forget(queue.topic)
            one.is_uncertain = one.is_uncertain or code in MAYBE_WRITTEN
            self._put_back(queue, one)
        elif code == Code.MESSAGE_TOO_LARGE and one.batch.records > 1:
            self._split(queue, one)
        elif code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER and (queue.is_halted or queue.in_flight[0] is not one):
            self._put_back(queue, one)  # one before it is to be sent again
        elif code in IDENTITY_LOST and self._settings.idempotent and self._transaction is None:
            _log.info("%s-%d: the broker does not know the producer any more (%d)", queue.topic, queue.partition, code)
            self._identity = NO_IDENTITY
            self._put_back(queue, one)
        else:
            self._fail_batch(queue, one, code, text)

    def _split(self, queue: PartitionQueue, one: InFlightBatch) -> None:
        """Halves a batch that is larger than its topic takes, as Java's client does (KIP-126)."""
        whole = one.batch
        whole.data = decompress(whole.data, self._settings.compression, one.plain_bytes)
        parts = []
        for number, half in enumerate(halves(whole)):
            plain_bytes, attributes = len(half.data), self._compress(half)
            parts.append(InFlightBatch(half, attributes, plain_bytes, (*one.order, number), one.deadline))
        self.deliveries.replace(one, parts)
        queue.replace(one, parts)
        self._ready[queue.topic, queue.partition] = queue
        self._on_too_large(one.plain_bytes)

    def _put_back(self, queue: PartitionQueue, one: InFlightBatch) -> None:
        now = time.monotonic()
        if queue.put_back(one, now):
            self._connections.client.call_later(queue.not_before - now, self._pump)
        self._ready[queue.topic, queue.partition] = queue

    def _fail_batch(self, queue: PartitionQueue, one: InFlightBatch, code: int, text: str) -> None:
        size = one.batch.largest
        problem = problem_of_code(code, topic=queue.topic, partition=queue.partition, size=size, text=text)
        queue.drop(one)
        self.deliveries.count_failure(problem, one.batch.records)
        self.deliveries.finish(one)
        if self._transaction is not None:
            self.deliveries.fail(problem)  # a transaction with a part missing is of no use
        elif self._settings.idempotent and one.is_uncertain:
            # If it was written after all, batches with its numbers would be mistaken for it.
            self._identity = NO_IDENTITY

    def _continue(self) -> None:
        self._pump()
        if self.deliveries.is_idle and not self.deliveries.is_stopped:
            self._on_idle()

    def _note_error(self, error: BaseException) -> None:
        """Remembers what keeps requests from being answered. Refused credentials are not tried again."""
        problem = self._connections.problem_of(error)
        self._last_problem = problem
        if is_refusal(error):
            self.deliveries.fail(problem, event=True)

    @on_loop
    def _tick(self) -> None:
        """Stops if a batch has waited for longer than it may."""
        self._ticking = False
        now = time.monotonic()
        for queue in self._ready.values():
            if queue.waiting and queue.waiting[0].deadline < now and not self.deliveries.is_stopped:
                text = self._last_problem.text if self._last_problem is not None else "no broker took it"
                self.deliveries.fail(Problem("_MSG_TIMED_OUT", text, topic=queue.topic, partition=queue.partition))
        self._pump()

    def _drop_waiting(self) -> None:
        for queue in self._ready.values():
            while queue.waiting:
                self.deliveries.finish(queue.waiting.popleft(), failed=True)
        self._ready.clear()
