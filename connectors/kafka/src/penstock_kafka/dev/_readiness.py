"""Asking a broker whether it is there, and letting it do what is slow the first time."""

from __future__ import annotations

import socket
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaError, TransactionalIdNotFoundError
from kafka.protocol.producer import InitProducerIdRequest

from penstock.errors import RetriableError
from penstock_kafka.client.broker import KafkaPython

__all__ = ["check_broker", "warm_up_broker"]

#: Ids that nobody uses, enough of them to fall into every partition of the coordinators' topics.
_UNUSED = [f"penstock-dev-{number}" for number in range(16)]


def check_broker(address: str, timeout_s: float) -> None:
    """Returns if a broker gives its metadata. Raises RetriableError if it does not within ``timeout_s``."""
    _connect(address, timeout_s)
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0, "socket.connection.setup.timeout.ms": 2000})
    try:
        brokers = admin.list_topics(timeout=timeout_s).brokers
    except KafkaException as error:
        raise RetriableError(f"no broker answers at {address}: {error.args[0].str()}") from error
    if not brokers:
        raise RetriableError(f"what answers at {address} knows no broker yet")


def _connect(address: str, timeout_s: float) -> None:
    # The client goes on trying for the whole time, with pauses that grow; a closed port is known at once.
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
    try:
        admin = KafkaAdminClient(bootstrap_servers=address)
    except KafkaError as error:
        raise RetriableError(f"{address}: {error}") from error
    try:
        _ask_for_producer_id(KafkaPython(admin))
        for unused in _UNUSED:
            _ask_transaction_coordinator(admin, unused)
            admin.list_group_offsets({unused: None})
    except KafkaError as error:
        raise RetriableError(f"{address}: {error}") from error
    finally:
        admin.close()


def _ask_for_producer_id(client: KafkaPython) -> None:
    # As an idempotent producer does; the client has no method for it.
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1
    )

    async def send() -> Any:
        return await client.send(request)

    code = client.run(send).error_code
    if code != 0:
        raise RetriableError(f"the broker has no producer ids yet (error {code})")


def _ask_transaction_coordinator(admin: Any, transactional_id: str) -> None:
    try:
        admin.describe_transactions([transactional_id])
    except TransactionalIdNotFoundError:
        return  # only a coordinator that has loaded its part says so
