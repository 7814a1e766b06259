"""librdkafka's properties as arguments of ``kafka.KafkaAdminClient`` (kafka-python 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock_kafka.client.broker._gssapi import KerberosLogin
from penstock_kafka.client.broker._scram import DelegationToken
from penstock_kafka.client.broker._tokens import CurrentToken
from penstock_kafka.client.login import given_extensions, ssl_context, token_source
from penstock_kafka.config import wrong

__all__ = ["kafka_python_arguments"]

_DIRECT: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "client.dns.lookup": ("client_dns_lookup", str),
    "client.id": ("client_id", str),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", int),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", int),
    "receive.message.max.bytes": ("receive_message_max_bytes", int),
    "retry.backoff.ms": ("retry_backoff_ms", int),
    "socket.timeout.ms": ("request_timeout_ms", int),
    "topic.metadata.refresh.interval.ms": ("metadata_max_age_ms", int),
}
#: 0 is librdkafka's word for the system's default, or for never; kafka-python has an own one where it is left out.
_UNLESS_ZERO: Mapping[str, str] = {
    "connections.max.idle.ms": "connections_max_idle_ms",
    "socket.receive.buffer.bytes": "receive_buffer_bytes",
    "socket.send.buffer.bytes": "send_buffer_bytes",
}


def kafka_python_arguments(settings: Mapping[str, str]) -> dict[str, Any]:
    """Returns arguments for ``kafka.KafkaAdminClient``. They hold secrets, and where TLS is on an ``ssl.SSLContext``.

    All of TLS is in the context: ``KafkaAdminClient`` takes certificates from files only, and the context also takes
    authorities as text, directories of them, and verification switched off. Its one need for a file is the client's
    certificate with its key; given as text (PEM) or in a PKCS#12 store, they are written to a file of mode 0600 in a
    new directory of mode 0700, read, and both removed before this returns.

    Must be called where the client is made: a context can't be pickled, and files are read here. Raises
    BadConfigurationError for files that can't be read and for what kafka-python can't do.
    """
    protocol = settings.get("security.protocol", "plaintext").upper()
    servers = [server.strip() for server in settings["bootstrap.servers"].split(",")]
    arguments: dict[str, Any] = {
        # librdkafka also takes a protocol before the host, as in SASL_SSL://host:9092.
        "bootstrap_servers": [server.rpartition("://")[2] for server in servers if server],
        "security_protocol": protocol,
    }
    for name, (argument, parse) in _DIRECT.items():
        if name in settings:
            arguments[argument] = _parsed(name, settings[name], parse)
    for name, argument in _UNLESS_ZERO.items():
        if (number := _parsed(name, settings.get(name, "0"), int)) > 0:
            arguments[argument] = number
    if protocol.endswith("SSL"):
        arguments["ssl_context"] = ssl_context(settings)
    if protocol.startswith("SASL"):
        arguments |= _sasl(settings)
    return arguments


def _parsed(name: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except ValueError:
        raise wrong(name, f"needs a whole number, not {text!r}") from None


def _sasl(settings: Mapping[str, str]) -> dict[str, Any]:
    mechanism = settings.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism == "GSSAPI":
        return {"sasl_mechanism": mechanism, "sasl_kerberos_name": KerberosLogin.of(settings)}
    if mechanism == "OAUTHBEARER":
        provider = CurrentToken(token_source(settings), given_extensions(settings))
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": provider}
    user = settings["sasl.username"]
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": DelegationToken(user) if settings.get("sasl.scram.tokenauth") == "true" else user,
        "sasl_plain_password": settings["sasl.password"],
    }
