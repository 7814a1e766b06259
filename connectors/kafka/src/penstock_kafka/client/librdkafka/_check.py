"""Has librdkafka check settings, without a broker."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from penstock.errors import BadConfigurationError
from penstock_kafka.config import ClientSettings, hide, is_secret_setting

__all__ = ["check_settings"]


def check_settings(client: ClientSettings) -> None:
    """Lets librdkafka check every value, by making a client that knows no broker and closing it.

    A few milliseconds; nothing is sent to Kafka. Raises BadConfigurationError without the values of secrets.
    """
    settings: dict[str, Any] = {n: v for n, v in client.settings if n != "bootstrap.servers"}
    try:
        if client.role == "consumer":
            Consumer({"group.id": "penstock-check", **settings}).close()
        else:
            Producer(settings)
    except (KafkaException, ValueError, TypeError) as error:
        # librdkafka sends bad values back in its text; the error it comes with is dropped for the same reason.
        cause = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        secrets = [value for name, value in client.settings if is_secret_setting(name)]
        raise BadConfigurationError(_advise(hide(cause, secrets))) from None


def _advise(cause: str) -> str:
    text = f"options 'kafka.…': librdkafka says: {cause}"
    if "GSSAPI" in cause:
        text += (
            ". The wheels of confluent-kafka have no Kerberos: install it from source with librdkafka and libsasl2 "
            "(pip install --no-binary confluent-kafka confluent-kafka), or use another sasl.mechanism"
        )
    return text
