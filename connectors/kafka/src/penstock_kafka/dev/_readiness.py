"""Asking a broker whether it is there, and letting it do what is slow the first time."""

from __future__ import annotations

import socket
from contextlib import closing

from kafka.protocol.producer import InitProducerIdRequest

from penstock.errors import RetriableError
from penstock_kafka.client.broker import Connections, Coordinators, KafkaAdmin, RetryingBrokers, raise_for

__all__ = ["check_broker", "warm_up_broker"]

#: Unused ids, enough of them to fall into every partition of the coordinators' topics.
_UNUSED = [f"penstock-dev-{number}" for number in range(16)]


def check_broker(address: str, timeout_s: float) -> None:
    """Returns if a broker gives its metadata. Raises RetriableError if it does not within ``timeout_s``."""
    _connect(address, timeout_s)
    config = {"bootstrap.servers": address}
    with closing(KafkaAdmin(config, read_committed=False, patience_s=timeout_s)) as admin:
        admin.topic_names()


def _connect(address: str, timeout_s: float) -> None:
    # The client keeps trying for the whole time, with pauses that grow; a closed port is known at once.
    refused = ""
    for server in address.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
        except (OSError, ValueError) as error:
            refused = f"{error}"
        else:
            return
    raise RetriableError(f"no broker answers at {address} ({refused})")


def warm_up_broker(address: str) -> None:
    """Lets the broker make its coordinators' topics and fetch producer ids; leaves no transactional id or group behind.

    Raises RetriableError while it is not done.
    """
    config = {"bootstrap.servers": address}
    with closing(RetryingBrokers(config)) as brokers, closing(Coordinators(config)) as coordinators:
        brokers.ask(_ask_for_producer_id, "get a producer id")
        # Only coordinators that have loaded their parts say that they know of none.
        coordinators.await_loaded(_UNUSED)
        coordinators.proofs(_UNUSED)


async def _ask_for_producer_id(brokers: Connections) -> None:
    # As an idempotent producer does.
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1
    )
    raise_for((await brokers.send(request)).error_code, "while asking for a producer id")
