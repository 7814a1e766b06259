"""The sink's options as the sink uses them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues, names_object
from penstock.serialization.formats import FormatSettings
from penstock.sink import ChangeColumns
from penstock_kafka.client.login import check_login
from penstock_kafka.config import (
    ClientSettings,
    Delivery,
    check_delivery,
    check_transaction_timeout,
    delivery_timeout_ms,
    report_without_effect,
)
from penstock_kafka.options._declared import PARTITIONERS
from penstock_kafka.options._subscription import check_topic

__all__ = ["SinkOptions"]

#: Room is left for what the connector adds; Kafka's limit is that of a string, 32,767 bytes.
_LONGEST_PREFIX = 200


@dataclass(frozen=True)
class SinkOptions:
    """Checked, typed, picklable. Holds secrets in ``producer``, ``admin`` and the formats; the repr hides them.

    ``partitioner`` is murmur2, round-robin, task or ``module:function``. ``transaction_timeout_ms`` is ``None`` for
    the broker's maximum, ``transactional_id_prefix`` for one made from the query's id. ``delivery_timeout_ms`` is
    for how long a record is sent again before the task fails, unless ``producer`` says it.
    """

    producer: ClientSettings
    admin: ClientSettings
    client: str
    topic: str | None
    delivery: Delivery
    partitioner: str
    transactional_id_prefix: str | None
    transaction_timeout_ms: int | None
    delivery_timeout_ms: int
    log_failures_only: bool
    key_format: FormatSettings
    value_format: FormatSettings
    changes: ChangeColumns

    @property
    def target(self) -> str:
        """Where rows go, for a person. Brokers are not named: there are many ways to name the same ones."""
        return "the topics that rows name" if self.topic is None else f"topic {self.topic}"

    @classmethod
    def from_values(cls, values: OptionValues) -> SinkOptions:
        """Returns the options of ``values``. Raises BadConfigurationError for what does not go together."""
        kafka = values.with_prefix("kafka.")
        producer = ClientSettings.from_options(kafka, "producer")
        check_login(producer.librdkafka(), values["client"])
        report_without_effect(kafka, "producer", values["client"])
        delivery: Delivery = values["delivery"]
        check_delivery(producer, delivery)
        if values["transactionTimeout"] is not None:
            check_transaction_timeout(producer, values["transactionTimeout"])
        topic = values["topic"]
        return cls(
            producer=producer,
            admin=ClientSettings.from_options(kafka, "admin"),
            client=values["client"],
            topic=None if topic is None else check_topic("topic", topic.strip()),
            delivery=delivery,
            partitioner=_partitioner(values["partitioner"]),
            transactional_id_prefix=_prefix(values["transactionalIdPrefix"]),
            transaction_timeout_ms=values["transactionTimeout"],
            delivery_timeout_ms=delivery_timeout_ms(producer, values["retryTimeout"]),
            log_failures_only=values["logFailuresOnly"],
            key_format=FormatSettings.from_values(values, "key", reading=False),
            value_format=FormatSettings.from_values(values, "value", reading=False),
            changes=ChangeColumns.from_values(values),
        )


def _partitioner(text: str) -> str:
    name = text.strip()
    if name not in PARTITIONERS and not names_object(name):
        raise BadConfigurationError(
            f"option 'partitioner': {name!r} is not one of {', '.join(PARTITIONERS)}, nor a function written as "
            "module:function"
        )
    return name


def _prefix(prefix: str | None) -> str | None:
    if prefix is not None and not (prefix.isprintable() and 0 < len(prefix.strip()) <= len(prefix) <= _LONGEST_PREFIX):
        raise BadConfigurationError(
            f"option 'transactionalIdPrefix' needs 1 to {_LONGEST_PREFIX} printable characters, not only blanks"
        )
    return prefix
