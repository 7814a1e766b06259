"""A producer on librdkafka: what a failure means, how an identity is learned, what may get stuck."""

from __future__ import annotations

import json
import threading
import time
from abc import abstractmethod

import pyarrow as pa

from penstock.errors import BadConfigurationError, PenstockError
from penstock_kafka.client._errors import Problem, delivery_error, producer_error
from penstock_kafka.client._interfaces import (
    BatchProducer,
    ProducerIdentity,
    TransientClientError,
    deliverable,
)
from penstock_kafka.client.librdkafka._settings import IDENTITY_INTERVAL_MS

__all__ = ["CheckedProducer", "ends_all"]

FLUSH_SLICE_MS = 500
#: How much later than its time limit a call may return.
_GRACE_S = 2.0


def ends_all(event: Problem | None) -> bool:
    """Returns whether nothing can be delivered after ``event``."""
    return event is not None and (event.fatal or event.code == "_AUTHENTICATION")


class CheckedProducer(BatchProducer):
    """Sends, then looks at what failed: a failure that was seen once is raised by every later call.

    A ``timestamp`` of exactly 0 (the epoch) is sent as now: librdkafka knows no other way to say so.
    """

    #: In a call of librdkafka that does not return: no other call may be made on it, not even to end.
    _is_stuck = False

    def produce(self, batch: pa.RecordBatch) -> None:
        """Queues every row of ``batch``."""
        self._send(deliverable(batch))
        self._raise_failure()

    def flush(self) -> None:
        """Returns when every record is acknowledged."""
        while self._flush_for(FLUSH_SLICE_MS):
            self._raise_event()
        self._raise_failure()

    def init_transactions(self, timeout_ms: int) -> ProducerIdentity:
        """Registers the transactional id and says under what identity."""
        deadline = time.monotonic() + timeout_ms / 1000
        doing = "to register the transactional id"
        problem = self._init_transactions(timeout_ms)
        if problem is not None:
            raise self._explain(problem, doing)
        while True:
            eos = json.loads(self._statistics() or "{}").get("eos", {})
            if eos.get("producer_id", -1) >= 0 and eos.get("idemp_state") == "Assigned":
                self._stop_statistics()
                return ProducerIdentity(eos["producer_id"], eos["producer_epoch"])
            if time.monotonic() > deadline:
                raise TransientClientError(f"failed {doing}: librdkafka did not tell its identity in {timeout_ms} ms")
            time.sleep(IDENTITY_INTERVAL_MS / 10_000)

    def send_offset(self, group: str, topic: str, partition: int, offset: int, metadata: str, timeout_ms: int) -> None:
        """Commits one offset of a consumer group as a part of the transaction.

        In a thread of its own: librdkafka's call ignores its time limit while the group has no coordinator (its issue
        5456).
        """
        answers: list[Problem | BaseException | None] = []

        def ask() -> None:
            try:
                answers.append(self._send_offset(group, topic, partition, offset, metadata, timeout_ms))
            except BaseException as error:  # raised below
                answers.append(error)

        asking = threading.Thread(target=ask, name="penstock-send-offset", daemon=True)
        asking.start()
        asking.join(timeout_ms / 1000 + _GRACE_S)
        doing = f"to commit an offset of group '{group}' with the transaction"
        if not answers:
            self._is_stuck = True
            raise TransientClientError(f"failed {doing}: its coordinator has not answered in {timeout_ms} ms")
        answer = answers[0]
        if isinstance(answer, BaseException):
            raise answer
        if answer is not None:
            raise self._explain(answer, doing)

    def abort_transaction(self, timeout_ms: int) -> None:
        """Throws the open transaction away."""
        doing = "to abort the transaction"
        if self._is_stuck:
            raise TransientClientError(f"failed {doing}: the client is stuck")
        problem = self._abort_transaction(timeout_ms)
        if problem is not None:
            raise self._explain(problem, doing)

    def close(self) -> None:
        """Ends the client at once. One that is stuck is left to the end of the process."""
        if not self._is_stuck:
            self._close()

    def _explain(self, problem: Problem, doing: str) -> PenstockError:
        """``problem``, or the event after it where it only says that time ran out."""
        error = producer_error(problem, doing)
        event = self._failures()[2]
        if event is not None and isinstance(error, TransientClientError):
            behind = producer_error(event, doing)
            return (
                behind if isinstance(behind, BadConfigurationError) else TransientClientError(f"{error}: {event.text}")
            )
        return error

    def _raise_event(self) -> None:
        event = self._failures()[2]
        if event is not None and ends_all(event):
            raise producer_error(event, "to send records")

    def _raise_failure(self) -> None:
        _, first, event = self._failures()
        if event is not None and ends_all(event):
            raise producer_error(event, "to send records")
        if first is not None:
            raise delivery_error(first)

    @property
    def failed(self) -> int:
        """How many records were refused so far."""
        return self._failures()[0]

    @abstractmethod
    def _send(self, batch: pa.RecordBatch) -> None:
        """Queues every row, waiting while the queue is full; may stop early when nothing can be delivered any more."""

    @abstractmethod
    def _flush_for(self, timeout_ms: int) -> int:
        """Waits for records in flight, and returns how many still are."""

    @abstractmethod
    def _failures(self) -> tuple[int, Problem | None, Problem | None]:
        """Returns how many records failed, the first failure, and the last event of the client."""

    @abstractmethod
    def _init_transactions(self, timeout_ms: int) -> Problem | None:
        """Registers the transactional id, with the connection brought up first."""

    @abstractmethod
    def _send_offset(
        self, group: str, topic: str, partition: int, offset: int, metadata: str, timeout_ms: int
    ) -> Problem | None:
        """Commits an offset with the transaction. Any thread."""

    @abstractmethod
    def _abort_transaction(self, timeout_ms: int) -> Problem | None:
        """Throws the open transaction away."""

    @abstractmethod
    def _close(self) -> None:
        """Ends the client. Idempotent."""

    @abstractmethod
    def _statistics(self) -> str:
        """librdkafka's newest statistics, if there are new ones; asks for them to be kept."""

    @abstractmethod
    def _stop_statistics(self) -> None:
        """They are not needed any more."""
