"""What is at the brokers' addresses, where no Kafka broker answers."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import BadConfigurationError
from penstock.reach import look_at_all
from penstock_kafka._error_codes import WRONG_PORT

__all__ = ["wrong_at"]

_PORT = "9092"
_ADVICE = {
    "tls": "set kafka.security.protocol to SSL or SASL_SSL, or name the port without TLS",
    "plain": "set kafka.security.protocol to PLAINTEXT or SASL_PLAINTEXT, or name the port with TLS",
    "other": "correct kafka.bootstrap.servers",
}


def wrong_at(settings: Mapping[str, str]) -> str:
    """Returns what is wrong at all of the brokers' addresses and may pass, empty if nothing can be seen.

    ``settings`` are in librdkafka's spelling. Raises BadConfigurationError for what does not pass.
    """
    tls = settings.get("security.protocol", "plaintext").lower().endswith("ssl")
    seen = look_at_all(_addresses(settings.get("bootstrap.servers", "")), tls=tls, protocol="Kafka")
    if seen is None:
        return ""
    if not seen.may_pass:
        raise BadConfigurationError(f"no Kafka broker: {seen.text}: {_ADVICE[seen.kind]}", error_code=WRONG_PORT)
    return seen.text


def _addresses(servers: str) -> list[str]:
    found = [one.strip().rpartition("://")[2] for one in servers.split(",") if one.strip()]
    return [one if one.rpartition(":")[2].isdecimal() else f"{one}:{_PORT}" for one in found]
