"""Chooses the implementation of the client: the compiled one where it loads, else the one in Python."""

from __future__ import annotations

import os

from penstock.errors import BadConfigurationError
from penstock_kafka.client._contracts import BatchProducer, ClientConfig, RangeConsumer
from penstock_kafka.client.native._library import native_problem

__all__ = ["native_problem", "open_consumer", "open_producer"]

#: Environment variable that decides where ``auto`` is asked for.
SWITCH = "PENSTOCK_KAFKA_CLIENT"


def _is_native(implementation: str) -> bool:
    chosen = implementation
    if chosen == "auto":
        chosen = os.environ.get(SWITCH, "") or "auto"
    if chosen == "auto":
        return not native_problem()
    if chosen not in ("native", "python"):
        raise BadConfigurationError(f"Kafka client '{chosen}' is unknown ({SWITCH}): write native, python or auto")
    if chosen == "native" and native_problem():
        raise BadConfigurationError(f"the native Kafka client can't be used: {native_problem()}")
    return chosen == "native"


def open_consumer(config: ClientConfig, implementation: str = "auto") -> RangeConsumer:
    """A consumer with settings ``config``, in librdkafka's spelling.

    ``implementation`` is ``native``, ``python`` or ``auto``: what ``PENSTOCK_KAFKA_CLIENT`` says, else native where it
    can be used (see :func:`native_problem`). Settings that only librdkafka knows get the one in Python all the same.
    Raises BadConfigurationError; does not wait for a broker.
    """
    if _is_native(implementation):
        from penstock_kafka.client.direct._fetch_settings import FetchSettings

        settings = FetchSettings.of(config)
        if settings is not None:
            from penstock_kafka.client.direct._consumer import DirectConsumer

            return DirectConsumer(settings)
    from penstock_kafka.client.python._consumer import PythonConsumer

    return PythonConsumer(config)


def open_producer(config: ClientConfig, implementation: str = "auto") -> BatchProducer:
    """A producer with settings ``config``; ``implementation`` and errors as for :func:`open_consumer`.

    With ``transactional.id`` it is one for transactions.
    """
    if _is_native(implementation):
        # Not for everyone who imports this package: it brings kafka-python, which takes a while.
        from penstock_kafka.client.direct._settings import DirectSettings

        settings = DirectSettings.of(config)
        if settings is not None:
            from penstock_kafka.client.direct._producer import DirectProducer

            return DirectProducer(settings)
    from penstock_kafka.client.python._producer import PythonProducer

    return PythonProducer(config)
