"""The producer that speaks Kafka's protocol itself."""

from __future__ import annotations

import threading
import time

import pyarrow as pa

from penstock.errors import FatalError, PenstockError
from penstock_kafka.client._errors import Code, Problem, delivery_error, producer_error
from penstock_kafka.client._held_back import HeldBack
from penstock_kafka.client._interfaces import BatchProducer, ProducerIdentity, TransientClientError, deliverable
from penstock_kafka.client.broker import ProblemError, acquire, problem_of_code, release
from penstock_kafka.client.codec import RecordEncoder, Rows, Stop, Stopped
from penstock_kafka.client.producer._sender import Sender
from penstock_kafka.client.producer._settings import ProducerSettings
from penstock_kafka.client.producer._transaction import NO_IDENTITY, TransactionRequests

__all__ = ["ProtocolProducer"]

_PAUSE_S = 0.1


class ProtocolProducer(BatchProducer):
    """Sends Arrow batches.

    Rows become record batches in the calling thread, in C; the thread of the connections, which the producers of a
    process share, brings them to the brokers. A batch is sent when it is full, or when nothing else is in flight.

    Memory: ``queue.buffering.max.kbytes`` of batches in flight, half of it again of open ones, and as much of that
    reserved.
    """

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self._encoder = RecordEncoder(settings.batch_bytes, settings.record_bytes, settings.queue_bytes // 2)
        #: The encoder's. The connections' thread uses it as well, and never waits for this lock.
        self._encoding = threading.Lock()
        self._refused_topics: dict[str, Problem] = {}
        self._connections = acquire(settings.connection)
        self._transaction = TransactionRequests(self._connections, settings) if settings.transactional_id else None
        #: Lowered by the connections' thread, read by the producer's.
        self._batch_bytes = settings.batch_bytes
        self._sender = Sender(
            self._connections, settings, self._transaction, self._send_open_if_free, self._make_smaller
        )
        self._deliveries = self._sender.deliveries
        self._is_open = True
        #: Whether the connections are good for others.
        self._is_useful = True
        #: Set by the thread that sends an offset, read by the one that aborts, which has waited for it.
        self._has_offsets = False
        #: So that it is closed once: any thread may do it.
        self._closing = threading.Lock()

    # --- records ------------------------------------------------------------------------------------------------------

    def produce(self, batch: pa.RecordBatch) -> None:
        """Queues every row of ``batch``."""
        if not self._is_open:
            raise RuntimeError("the producer is closed")
        rows = Rows(deliverable(batch))
        try:
            self._encode(rows)
        finally:
            rows.close()
        if self._deliveries.is_idle:
            self._send_open()
        self._raise_failure()

    def flush(self) -> None:
        """Returns when every record is acknowledged."""
        self._send_open()
        self._deliveries.await_all()
        self._raise_failure()

    @property
    def held_back(self) -> HeldBack:
        """For how long quotas have held writing back."""
        return self._sender.held_back

    @property
    def failed(self) -> int:
        """How many records were refused so far."""
        return self._deliveries.failures()[0]

    def _encode(self, rows: Rows) -> None:
        row, stopped, asked = 0, Stopped(), set[str]()
        while not self._deliveries.is_stopped:
            with self._encoding:
                self._encoder.limit(self._batch_bytes)
                why = self._encoder.encode(rows, row, stopped)
                full = self._encoder.take(stopped.topic, stopped.partition) if why is Stop.BATCH_FULL else None
            if why is Stop.DONE:
                return
            row = stopped.row
            if full is not None:
                self._sender.submit(full)
            elif why is Stop.ALL_FULL:
                self._send_open()
                with self._encoding:
                    self._encoder.trim()
            elif why is Stop.NO_MEMORY:
                raise MemoryError("no memory for the records to send")
            else:
                topic = rows.batch.column("topic")[row].as_py()
                unknown = Stop.TOPIC_UNKNOWN, Stop.PARTITION_UNKNOWN
                if why in unknown and topic not in asked:
                    asked.add(topic)
                    self._refresh_metadata(topic, anew=why is Stop.PARTITION_UNKNOWN)
                else:
                    self._count_failure(why, topic, stopped)
                    row += 1

    def _refresh_metadata(self, topic: str, *, anew: bool) -> None:
        """Tells the encoder how many partitions the topic has, or that its records are to be refused.

        Waits for a topic that may be in creation, and for brokers that are away.
        """
        settings, leaders, started = self._settings, self._connections.leaders, time.monotonic()
        deadline = started + settings.delivery_timeout_ms / 1000
        count = 0 if anew else leaders.count_of(topic)
        while not count:
            try:
                timeout_ms, create = settings.request_timeout_ms, settings.creates_topics
                self._connections.refresh_metadata(topic, deadline, timeout_ms, create)
            except ProblemError as error:
                self._fail_with(error, topic)
                return
            if count := leaders.count_of(topic):
                break
            code, now = leaders.problem_of(topic), time.monotonic()
            problem = problem_of_code(code, topic=topic)
            is_missing = code == Code.UNKNOWN_TOPIC_OR_PARTITION and now - started > settings.missing_s
            if is_missing or not problem.retriable:
                self._refused_topics[topic] = problem
                break
            if now > deadline:
                self._deliveries.fail(Problem("_MSG_TIMED_OUT", problem.text, topic=topic))
                return
            time.sleep(_PAUSE_S)
        with self._encoding:
            self._encoder.set_topic(topic, count)

    def _fail_with(self, error: ProblemError, topic: str) -> None:
        self._is_useful = False
        if error.timed_out:
            self._deliveries.fail(Problem("_MSG_TIMED_OUT", error.problem.text, topic=topic))
        else:
            self._deliveries.fail(error.problem, event=True)

    def _count_failure(self, why: Stop, topic: str, stopped: Stopped) -> None:
        if why is Stop.RECORD_TOO_LARGE:
            code, text = "MESSAGE_TOO_LARGE", f"it is larger than message.max.bytes, {self._settings.record_bytes}"
        elif why is Stop.PARTITION_UNKNOWN:
            code, text = "_UNKNOWN_PARTITION", "the topic has no such partition"
        else:
            code, text = self._refused_topics[topic].code, self._refused_topics[topic].text
        problem = Problem(code, text, topic=topic, partition=stopped.partition, size=stopped.size)
        self._deliveries.count_failure(problem)

    def _make_smaller(self, refused_bytes: int) -> None:
        """A batch of several records was too large for its topic. Called by the connections' thread."""
        self._batch_bytes = min(self._batch_bytes, max(refused_bytes // 2, 1))

    def _send_open(self) -> None:
        while True:
            with self._encoding:
                batch = self._encoder.take()
            if batch is None:
                return
            self._sender.submit(batch)

    def _send_open_if_free(self) -> None:
        """Called by the connections' thread when nothing is in flight, which must not wait for room or for a lock."""
        # If it is not free: the thread that has it will see that nothing is in flight.
        if not self._encoding.acquire(blocking=False):
            return
        try:
            # Under the lock until they are queued: what is encoded meanwhile comes after them, and a flush waits.
            while self._is_open and (batch := self._encoder.take()) is not None:
                self._sender.submit(batch, wait=False)
        finally:
            self._encoding.release()

    def _raise_failure(self) -> None:
        _, first, event = self._deliveries.failures()
        if event is not None:
            raise producer_error(event, "to send records")
        if first is not None:
            raise delivery_error(first)
        if self._deliveries.is_stopped:
            raise FatalError("records are not sent: the transaction was aborted, or the producer is closed")

    # --- transactions -------------------------------------------------------------------------------------------------

    def init_transactions(self, timeout_ms: int) -> ProducerIdentity:
        """Registers the transactional id and says under what identity."""
        doing = "to register the transactional id"
        if self._transaction is None:
            raise FatalError(f"failed {doing}: the producer was made without one")
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            self._connections.open(deadline)
            return self._transaction.register(deadline)
        except ProblemError as error:
            self._is_useful = False
            raise _explained(error, doing) from error

    def begin_transaction(self) -> None:
        """Begins. Nothing is sent for that: a transaction begins with its first part."""
        if self._transaction is None or self._transaction.identity == NO_IDENTITY:
            raise FatalError("failed to begin a transaction: the transactional id is not registered")

    def send_offset(self, group: str, topic: str, partition: int, offset: int, metadata: str, timeout_ms: int) -> None:
        """Commits one offset of a consumer group as a part of the transaction. Any thread."""
        doing = f"to commit an offset of group '{group}' with the transaction"
        if self._transaction is None:
            raise FatalError(f"failed {doing}: the producer has none")
        self._has_offsets = True
        try:
            deadline = time.monotonic() + timeout_ms / 1000
            self._transaction.send_offset(group, topic, partition, offset, metadata, deadline)
        except ProblemError as error:
            if error.timed_out:
                raise TransientClientError(
                    f"failed {doing}: its coordinator has not answered in {timeout_ms} ms: {error.problem.text}"
                ) from error
            raise _explained(error, doing) from error

    def abort_transaction(self, timeout_ms: int) -> None:
        """Throws the open transaction away."""
        doing = "to abort the transaction"
        deadline = time.monotonic() + timeout_ms / 1000
        # Records that come after the transaction's end would be refused at best.
        if not self._sender.stop(timeout_ms / 1000):
            raise TransientClientError(f"failed {doing}: records are still in flight after {timeout_ms} ms")
        if self._transaction is None or not (self._has_offsets or self._sender.has_txn_partitions):
            return
        try:
            self._transaction.abort(deadline)
        except ProblemError as error:
            raise _explained(error, doing) from error

    def close(self) -> None:
        """Ends the client at once. Idempotent."""
        with self._closing:
            if not self._is_open:
                return
            self._is_open = False
        self._sender.stop(0)
        with self._encoding:
            self._encoder.close()
        release(self._connections, useful=self._is_useful and self._deliveries.failures()[1:] == (None, None))


def _explained(error: ProblemError, doing: str) -> PenstockError:
    if error.timed_out:
        return TransientClientError(f"failed {doing}: {error.problem.text} ({error.problem.code})")
    return producer_error(error.problem, doing)
