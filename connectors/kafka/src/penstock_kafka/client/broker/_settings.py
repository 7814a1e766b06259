"""What consumers and producers that speak the protocol themselves know of settings in librdkafka's spelling."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from penstock.errors import BadConfigurationError
from penstock.per_process import PerProcess
from penstock.printable import get_logger
from penstock_kafka.client._interfaces import ClientConfig
from penstock_kafka.client.broker._arguments import kafka_python_arguments
from penstock_kafka.client.broker._pool import Settings
from penstock_kafka.config import canonical, files_of

__all__ = [
    "CONNECTION_SETTINGS",
    "YES_OR_NO",
    "SettingsReader",
    "connection_settings",
    "known_settings",
]

_log = get_logger("penstock.kafka")

#: Settings of the connections; see :func:`kafka_python_arguments`.
CONNECTION_SETTINGS = """
    bootstrap.servers client.dns.lookup client.id connections.max.idle.ms enable.ssl.certificate.verification
    https.ca.location https.ca.pem receive.message.max.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    retry.backoff.ms sasl.kerberos.keytab sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism
    sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.jwt.template.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.client.id sasl.oauthbearer.client.secret
    sasl.oauthbearer.config sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
    sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.oauthbearer.scope
    sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.token.provider sasl.password sasl.scram.tokenauth
    sasl.username security.protocol socket.receive.buffer.bytes
    socket.send.buffer.bytes socket.timeout.ms ssl.ca.location ssl.ca.pem ssl.certificate.location
    ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.endpoint.identification.algorithm ssl.key.location
    ssl.key.password ssl.key.pem ssl.keystore.location ssl.keystore.password topic.metadata.refresh.interval.ms
    """
YES_OR_NO = {"true": True, "false": False}
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")


def _check_connection(connection: Settings) -> None:
    """Raises BadConfigurationError for what can't be used."""
    kafka_python_arguments(dict(connection))


#: It reads certificates: not again for every transaction's producer.
_checked = PerProcess(_check_connection, files=files_of)


class SettingsReader:
    """Takes settings out one by one; ``left`` are the unknown ones.

    Raises ValueError or KeyError for values that can't be used.
    """

    def __init__(self, config: ClientConfig) -> None:
        self.left = {canonical(name): value for name, value in config.items()}

    def drop(self, names: Iterable[str]) -> None:
        """These have no effect."""
        for name in names:
            self.left.pop(name, None)

    def text(self, name: str, default: str) -> str:
        """Takes out a setting as text."""
        return self.left.pop(name, default)

    def number(self, name: str, default: int, least: int = 1) -> int:
        """Returns a whole number from ``least`` on."""
        value = int(self.text(name, str(default)))
        if value < least:
            raise ValueError(name)
        return value

    def one_of(self, name: str, default: str, values: Mapping[str, Any]) -> Any:
        """Returns what the text stands for."""
        return values[self.text(name, default).lower()]

    def all_of(self, names: str) -> Settings:
        """Returns those of these that are there."""
        return tuple(sorted((name, self.left.pop(name)) for name in names.split() if name in self.left))


def connection_settings(config: ClientConfig) -> Settings:
    """Returns those of the settings that are about connections: clients that agree on these share their connections."""
    return SettingsReader(config).all_of(CONNECTION_SETTINGS)


class _Connecting(Protocol):
    @property
    def connection(self) -> Settings:
        """Settings of the connections."""


SettingsT = TypeVar("SettingsT", bound=_Connecting)


def known_settings(
    config: ClientConfig, read: Callable[[SettingsReader], SettingsT], *, asked_for: bool
) -> SettingsT | None:
    """Returns what ``read`` makes of the settings; ``None`` if it does not know all of them, or not what they say.

    Logs why, as a warning if the user has ``asked_for`` the client that speaks the protocol.
    """
    given = SettingsReader(config)
    try:
        settings = read(given)
        if dict(settings.connection).get("security.protocol", "plaintext").lower() not in _PROTOCOLS:
            raise ValueError("security.protocol")
        _checked.get(settings.connection)
    except (ValueError, KeyError, BadConfigurationError) as error:
        _report(f"librdkafka is used, which is slower: {type(error).__name__}", asked_for)
        return None
    if given.left:
        _report(f"librdkafka is used, which alone knows {', '.join(sorted(given.left))}, and is slower", asked_for)
        return None
    return settings


@lru_cache(maxsize=100)  # once in a process: every transaction has a producer of its own
def _report(text: str, asked_for: bool) -> None:
    _log.log(logging.WARNING if asked_for else logging.INFO, "%s", text)
