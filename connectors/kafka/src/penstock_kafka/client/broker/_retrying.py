"""One connection to the brokers that outlives them: questions are asked again while a broker is away or busy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kafka.errors import KafkaError, KafkaTimeoutError

from penstock.errors import BadConfigurationError, RetriableError
from penstock_kafka.client._errors import Code
from penstock_kafka.client.broker._errors import is_refusal, words_of
from penstock_kafka.client.broker._kafka_python import KafkaPython, connect

__all__ = ["RetryingBrokers"]

AnswerT = TypeVar("AnswerT")

_TRIES_FOR_S = 60.0
_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0

#: A broker is busy, moving or not there yet, and finishes what it was asked to do in any case. The connection is good.
_AGAIN = frozenset(
    {
        *(Code.CONCURRENT_TRANSACTIONS, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE),
        *(Code.NOT_COORDINATOR, Code.NOT_LEADER_OR_FOLLOWER, Code.LEADER_NOT_AVAILABLE, Code.UNKNOWN_SERVER_ERROR),
        *(Code.KAFKA_STORAGE_ERROR, Code.NOT_ENOUGH_REPLICAS, Code.REQUEST_TIMED_OUT),
    }
)


class RetryingBrokers:
    """The brokers of a cluster, asked with patience. One thread; connects when first asked."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self._client: KafkaPython | None = None

    @property
    def client(self) -> KafkaPython:
        """The connected client; within :meth:`persist` only."""
        assert self._client is not None
        return self._client

    def send(self, request: Any, *, node_id: int | None = None) -> Any:
        """Sends a request at once, to a node or to any. Returns what to await for the answer."""
        return self.client.send(request, node_id=node_id)

    def run(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """Returns the result of an async function of the connections' own loop."""
        return self.client.run(question, *arguments)

    def persist(self, attempt: Callable[[], AnswerT], what: str) -> AnswerT:
        """Calls ``attempt`` until it succeeds, for up to a minute, with a new connection after each that broke.

        Raises :class:`penstock.errors.RetriableError` after that; a refusal is a
        :class:`penstock.errors.BadConfigurationError` at once. ``what`` is a verb with its object, for the messages.
        """
        deadline, pause = time.monotonic() + _TRIES_FOR_S, _PAUSE_S
        while True:
            try:
                if self._client is None:
                    self._client = connect(self._arguments)
                return attempt()
            except (KafkaError, OSError) as error:
                if is_refusal(error):
                    self.close()
                    raise BadConfigurationError(f"the Kafka brokers refuse to {what}: {words_of(error)}") from error
                if not _keeps_connection(error):
                    self.close()
                if time.monotonic() + pause > deadline:
                    self.close()
                    raise RetriableError(
                        f"could not {what} within {_TRIES_FOR_S:.0f} s: {words_of(error)}. Nothing is lost: try again "
                        "(a query does so when it is restarted)"
                    ) from error
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def close(self) -> None:
        """Ends the connections; the next question opens them anew."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _keeps_connection(error: BaseException) -> bool:
    if not isinstance(error, KafkaError):
        return False
    return type(error) is KafkaTimeoutError or getattr(error, "errno", None) in _AGAIN
