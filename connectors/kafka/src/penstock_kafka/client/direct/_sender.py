"""Brings batches to the leaders of their partitions, with several requests on their way; lanes see to their order."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.producer import ProduceRequest

from penstock_kafka.client._brokers import is_refusal
from penstock_kafka.client._problems import Problem
from penstock_kafka.client.direct._connections import Connections
from penstock_kafka.client.direct._coordinators import NO_IDENTITY, TransactionRequests, new_identity
from penstock_kafka.client.direct._errors import (
    IDENTITY_LOST,
    MAYBE_WRITTEN,
    NO_TOPIC,
    OUT_OF_ORDER,
    TOO_LARGE,
    WRITTEN,
    ProblemError,
    problem_of,
    problem_of_code,
)
from penstock_kafka.client.direct._lane import Lane, Sending
from penstock_kafka.client.direct._loop import of_loop
from penstock_kafka.client.direct._packing import packed, unpacked
from penstock_kafka.client.direct._settings import DirectSettings
from penstock_kafka.client.native._encoder import SealedBatch, halves

__all__ = ["Sender"]

_log = logging.getLogger("penstock.kafka")

#: Bytes of a request, unless a single batch is larger.
_REQUEST_BYTES = 4 << 20
_TICK_S = 0.25
_WATCH_S = 1.0
_LEARNING_PAUSE_S = 0.05
_NO_ANSWER = (-1, "the response does not mention it")


class Sender:
    """The batches of one producer. Works in the connections' loop; other threads submit and wait."""

    def __init__(
        self,
        connections: Connections,
        settings: DirectSettings,
        transaction: TransactionRequests | None,
        on_idle: Callable[[], None],
        on_too_large: Callable[[int], None],
    ) -> None:
        self._connections = connections
        self._settings = settings
        self._transaction = transaction
        self._on_idle = on_idle
        self._on_too_large = on_too_large
        # Shared with the producer's threads, under this lock.
        self._changed = threading.Condition()
        self._submitted: deque[Sending] = deque()
        self._queued_bytes = 0
        self._unfinished = 0
        self._failed = 0
        self._first: Problem | None = None
        self._event: Problem | None = None
        self._lost = False
        self._orders = 0
        # The loop's own.
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._ready: dict[tuple[str, int], Lane] = {}
        self._in_flight: dict[Any, int] = {}
        self._identity = NO_IDENTITY
        self._asking_identity = False
        self._parts: set[tuple[str, int]] = set()
        self._adding: set[tuple[str, int]] = set()
        self._learning = False
        self._ticking = False
        self._is_sending = False
        self._last_problem: Problem | None = None

    # --- any thread ---------------------------------------------------------------------------------------------------

    def submit(self, batch: SealedBatch, *, wait: bool = True) -> None:
        """Queues a batch; waits for room unless told not to. Dropped once nothing is delivered any more."""
        plain_bytes, attributes = len(batch.data), self._pack(batch)
        size = len(batch.data)
        with self._changed:
            if wait:
                self._await(lambda: not self._queued_bytes or self._queued_bytes + size <= self._settings.queue_bytes)
            if self._lost:
                self._failed += batch.records
                return
            self._orders += 1
            deadline = time.monotonic() + self._settings.delivery_timeout_ms / 1000
            self._submitted.append(Sending(batch, attributes, plain_bytes, (self._orders,), deadline))
            self._queued_bytes += size
            self._unfinished += 1
        self._connections.call_soon(self._pump)

    def _pack(self, batch: SealedBatch) -> int:
        """Compresses the batch, and says so in the attributes that it returns."""
        batch.data, attributes = packed(batch.data, self._settings.compression, self._settings.compression_level)
        return attributes

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way."""
        return self._unfinished == 0

    @property
    def is_lost(self) -> bool:
        """Whether nothing is delivered any more."""
        return self._lost

    @property
    def has_parts(self) -> bool:
        """Whether the transaction has partitions, or is being given some."""
        return bool(self._parts or self._adding)

    def failures(self) -> tuple[int, Problem | None, Problem | None]:
        """How many records were refused, the first refusal, and what ended everything."""
        with self._changed:
            return self._failed, self._first, self._event

    def refuse(self, problem: Problem, records: int = 1) -> None:
        """Counts records that are not delivered, for a reason that concerns them."""
        with self._changed:
            self._failed += records
            first = self._first
            # The broker refuses a whole batch for the one that is too large.
            larger = first is not None and first.code == problem.code and problem.size > first.size
            if first is None or (larger and problem.code == "MSG_SIZE_TOO_LARGE"):
                self._first = problem

    def lose(self, problem: Problem, *, event: bool = False) -> None:
        """Ends it: nothing is delivered from now on. ``event``: for a reason that concerns no record by itself."""
        with self._changed:
            self._lost = True
            if event and self._event is None:
                self._event = problem
            elif self._first is None:
                self._first = problem
            self._changed.notify_all()

    def await_all(self) -> None:
        """Returns when everything submitted is acknowledged or refused, or all is lost."""
        with self._changed:
            self._await(lambda: not self._unfinished)

    def _await(self, is_so: Callable[[], bool]) -> None:
        """Waits, with the lock, until ``is_so`` or all is lost; also if nobody is there any more to bring it about."""
        while not self._lost and not is_so():
            if not self._changed.wait(_WATCH_S) and self._connections.is_broken:
                self.lose(Problem("_FAIL", "the thread that serves the connections has ended", fatal=True), event=True)

    def stop(self, timeout_s: float) -> bool:
        """Sends nothing more. Whether what was on its way is back within that time."""
        with self._changed:
            self._lost = True
            self._changed.notify_all()
        if self.is_idle or timeout_s <= 0:
            return self.is_idle
        self._connections.call_soon(self._pump)
        with self._changed:
            return self._changed.wait_for(lambda: not self._unfinished, timeout_s)

    # --- the loop: what to send ---------------------------------------------------------------------------------------

    @of_loop
    def _pump(self) -> None:
        with self._changed:
            while self._submitted:
                one = self._submitted.popleft()
                key = (one.batch.topic, one.batch.partition)
                lane = self._lanes.get(key)
                if lane is None:
                    lane = self._lanes[key] = Lane(*key)
                lane.waiting.append(one)
                self._ready[key] = lane
        if self._lost:
            self._drop_waiting()
            return
        if not self._ready or self._is_sending:
            return
        if not self._ticking:
            self._ticking = True
            self._connections.call_later(_TICK_S, self._tick)
        if self._is_identified():
            self._add_parts()
            self._is_sending = True  # an answer may be there before the request's call has returned
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
        # What flies still has the numbers of the identity before.
        if not self._asking_identity and not any(self._in_flight.values()):
            self._asking_identity = True
            self._connections.call_soon(self._ask_identity)
        return False

    @of_loop
    async def _ask_identity(self) -> None:
        try:
            identity = await new_identity(self._connections, self._settings.request_timeout_ms)
        except (KafkaError, OSError) as error:
            self._note(error)
            await self._connections.sleep(_LEARNING_PAUSE_S)
        else:
            for lane in self._lanes.values():
                lane.forget_numbers()
            self._identity = identity
        self._asking_identity = False
        self._pump()

    def _add_parts(self) -> None:
        if self._transaction is None or self._adding:
            return
        new = self._ready.keys() - self._parts
        if new:
            self._adding = new
            self._connections.call_soon(self._add_to_transaction, self._transaction, new)

    @of_loop
    async def _add_to_transaction(self, transaction: TransactionRequests, new: set[tuple[str, int]]) -> None:
        try:
            await transaction.add_partitions(new, time.monotonic() + self._settings.delivery_timeout_ms / 1000)
        except ProblemError as error:
            topic, partition = min(new)
            code = "_MSG_TIMED_OUT" if error.timed_out else error.problem.code
            of_no_topic = code == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
            self.lose(Problem(code, error.problem.text, topic=topic, partition=partition), event=of_no_topic)
        else:
            self._parts |= new
        self._adding = set()
        self._pump()

    def _send_round(self) -> bool:
        """One request to each broker that may get one. Whether there was any."""
        now = time.monotonic()
        requests: dict[int, list[tuple[Lane, Sending]]] = {}
        sizes: dict[int, int] = {}
        leaderless: set[str] = set()
        for key, lane in list(self._ready.items()):
            if not lane.waiting:
                del self._ready[key]
                continue
            if not lane.may_send(now):
                continue
            if self._transaction is not None and key not in self._parts:
                continue
            node = self._connections.leaders.node_of(*key)
            if node is None:
                leaderless.add(lane.topic)
                continue
            size = len(lane.waiting[0].batch.data)
            if self._in_flight.get(node, 0) >= self._settings.in_flight:
                continue
            if node in sizes and sizes[node] + size > _REQUEST_BYTES:
                continue
            sizes[node] = sizes.get(node, 0) + size
            settings, transactional = self._settings, self._transaction is not None
            one = lane.start(self._identity, numbered=settings.idempotent, transactional=transactional)
            requests.setdefault(node, []).append((lane, one))
            # Whoever has had a turn waits for the others'.
            del self._ready[key]
            if lane.waiting:
                self._ready[key] = lane
        if leaderless and not self._learning:
            self._learning = True
            self._connections.call_soon(self._learn, leaderless)
        for node, sendings in requests.items():
            self._send(node, sendings)
        return bool(requests)

    def _send(self, node: int, sendings: list[tuple[Lane, Sending]]) -> None:
        topics: dict[str, list[Any]] = {}
        data = ProduceRequest.TopicProduceData
        for lane, one in sendings:
            part = data.PartitionProduceData(index=lane.partition, records=one.batch.data)
            topics.setdefault(lane.topic, []).append(part)
        settings = self._settings
        request = ProduceRequest(
            transactional_id=settings.transactional_id or None,
            acks=settings.acks,
            timeout_ms=settings.request_timeout_ms,
            topic_data=[data(name=topic, partition_data=parts) for topic, parts in topics.items()],
            # From version 11 on a transaction's end is told in another way (TRANSACTION_ABORTABLE), 12 adds partitions
            # to it by itself, 13 needs the topics' ids.
            max_version=10,
        )
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        answer = self._connections.send(request, node, settings.request_timeout_ms)
        answer.add_callback(lambda response: self._on_answer(node, sendings, response))
        answer.add_errback(lambda error: self._on_failure(node, sendings, error))

    @of_loop
    async def _learn(self, topics: set[str]) -> None:
        leaders, settings = self._connections.leaders, self._settings
        try:
            await leaders.learn(self._connections.manager, topics, settings.request_timeout_ms, settings.creates_topics)
        except (KafkaError, OSError) as error:
            self._note(error)
        else:
            self._refuse_missing(topics)
        await self._connections.sleep(_LEARNING_PAUSE_S)
        self._learning = False
        self._pump()

    def _refuse_missing(self, topics: set[str]) -> None:
        """What the brokers have just said that there is no leader for, and will not be."""
        now, leaders = time.monotonic(), self._connections.leaders
        for lane in list(self._ready.values()):
            if lane.topic not in topics or lane.flying or not lane.waiting:
                continue
            if leaders.node_of(lane.topic, lane.partition) is None:
                code = leaders.problem_of(lane.topic) or NO_TOPIC
                missing = code == NO_TOPIC and lane.waiting[0].is_missing(now, self._settings.missing_s)
                if missing or not problem_of_code(code).retriable:
                    self._refuse(lane, lane.waiting[0], code, "")

    # --- the loop: what became of it ----------------------------------------------------------------------------------

    @of_loop
    def _on_answer(self, node: int, sendings: list[tuple[Lane, Sending]], response: Any) -> None:
        self._in_flight[node] -= 1
        answers: dict[tuple[str, int], tuple[int, str]] = {}
        if response is not None:
            for topic in response.responses:
                for one in topic.partition_responses:
                    answers[topic.name, one.index] = (one.error_code, one.error_message or "")
        for lane, sending in sendings:
            # Without acknowledgements (acks=0) there is no response.
            code, text = (0, "") if response is None else answers.get((lane.topic, lane.partition), _NO_ANSWER)
            self._judge(lane, sending, code, text)
        self._go_on()

    @of_loop
    def _on_failure(self, node: int, sendings: list[tuple[Lane, Sending]], error: BaseException) -> None:
        self._in_flight[node] -= 1
        self._note(error)
        for lane, one in sendings:
            self._connections.leaders.forget(lane.topic)
            one.is_uncertain = True
            self._put_back(lane, one)
        self._go_on()

    def _judge(self, lane: Lane, one: Sending, code: int, text: str) -> None:
        problem = problem_of_code(code, text=text) if code else None
        if code in WRITTEN:
            lane.written(one)
            self._finish(one)
        elif code == NO_TOPIC and one.is_missing(time.monotonic(), self._settings.missing_s):
            self._refuse(lane, one, code, text)
        elif problem is not None and problem.retriable:
            self._last_problem = problem
            self._connections.leaders.forget(lane.topic)
            one.is_uncertain = one.is_uncertain or code in MAYBE_WRITTEN
            self._put_back(lane, one)
        elif code == TOO_LARGE and one.batch.records > 1:
            self._send_in_parts(lane, one)
        elif code == OUT_OF_ORDER and (lane.is_halted or lane.flying[0] is not one):
            self._put_back(lane, one)  # one before it is to be sent again
        elif code in IDENTITY_LOST and self._settings.idempotent and self._transaction is None:
            _log.info("%s-%d: the broker does not know the producer any more (%d)", lane.topic, lane.partition, code)
            self._identity = NO_IDENTITY
            self._put_back(lane, one)
        else:
            self._refuse(lane, one, code, text)

    def _send_in_parts(self, lane: Lane, one: Sending) -> None:
        """The topic takes less than a batch of ours: it gets smaller ones, as from Java's client (KIP-126)."""
        whole = one.batch
        whole.data = unpacked(whole.data, self._settings.compression, one.plain_bytes)
        parts = []
        for number, half in enumerate(halves(whole)):
            plain_bytes, attributes = len(half.data), self._pack(half)
            parts.append(Sending(half, attributes, plain_bytes, (*one.order, number), one.deadline))
        with self._changed:
            self._queued_bytes += sum(len(part.batch.data) for part in parts) - one.queued_bytes
            self._unfinished += len(parts) - 1
        lane.replace(one, parts)
        self._ready[lane.topic, lane.partition] = lane
        self._on_too_large(one.plain_bytes)

    def _put_back(self, lane: Lane, one: Sending) -> None:
        now = time.monotonic()
        if lane.put_back(one, now):
            self._connections.call_later(lane.not_before - now, self._pump)
        self._ready[lane.topic, lane.partition] = lane

    def _refuse(self, lane: Lane, one: Sending, code: int, text: str) -> None:
        size = one.batch.largest
        problem = problem_of_code(code, topic=lane.topic, partition=lane.partition, size=size, text=text)
        lane.refuse(one)
        self.refuse(problem, one.batch.records)
        self._finish(one)
        if self._transaction is not None:
            self.lose(problem)  # a transaction with a part missing is of no use
        elif self._settings.idempotent and one.is_uncertain:
            # If it was written after all, batches with its numbers would be taken for it.
            self._identity = NO_IDENTITY

    def _finish(self, one: Sending) -> None:
        with self._changed:
            self._queued_bytes -= one.queued_bytes
            self._unfinished -= 1
            self._changed.notify_all()

    def _go_on(self) -> None:
        self._pump()
        if self._unfinished == 0 and not self._lost:
            self._on_idle()

    def _note(self, error: BaseException) -> None:
        """What keeps requests from being answered; credentials that are refused are not tried again."""
        problem = problem_of(error)
        self._last_problem = problem
        if is_refusal(error):
            self.lose(problem, event=True)

    @of_loop
    def _tick(self) -> None:
        """Gives up what has waited for too long."""
        self._ticking = False
        now = time.monotonic()
        for lane in self._ready.values():
            if lane.waiting and lane.waiting[0].deadline < now and not self._lost:
                text = self._last_problem.text if self._last_problem is not None else "no broker took it"
                self.lose(Problem("_MSG_TIMED_OUT", text, topic=lane.topic, partition=lane.partition))
        self._pump()

    def _drop_waiting(self) -> None:
        for lane in self._ready.values():
            while lane.waiting:
                one = lane.waiting.popleft()
                with self._changed:
                    self._failed += one.batch.records
                self._finish(one)
        self._ready.clear()
