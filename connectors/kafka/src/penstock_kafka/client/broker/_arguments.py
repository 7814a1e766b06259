"""librdkafka's properties as arguments of ``kafka.KafkaAdminClient`` (kafka-python 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from penstock_kafka.client.broker._assertion import assertion
from penstock_kafka.client.broker._oidc import (
    JWT_BEARER,
    OidcTokenProvider,
    by_assertion,
    by_azure_metadata,
    by_client_secret,
)
from penstock_kafka.client.broker._tls import https_context, ssl_context
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
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_AZURE_METADATA = "http://169.254.169.254/metadata/identity/oauth2/token"
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
        if find_spec("gssapi") is None:
            raise wrong("sasl.mechanism", "is GSSAPI (Kerberos), which needs a package: pip install gssapi")
        return {
            "sasl_mechanism": mechanism,
            "sasl_kerberos_service_name": settings.get("sasl.kerberos.service.name", "kafka"),
        }
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": _token_provider(settings)}
    for name in ("sasl.username", "sasl.password"):
        if name not in settings:
            raise wrong(name, f"is missing: {mechanism} needs it (or 'kafka.sasl.jaas.config')")
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": settings["sasl.username"],
        "sasl_plain_password": settings["sasl.password"],
    }


def _token_provider(settings: Mapping[str, str]) -> OidcTokenProvider:
    def part(name: str) -> str:
        if not (value := settings.get(f"sasl.oauthbearer.{name}")):
            raise wrong(f"sasl.oauthbearer.{name}", "is missing: OAUTHBEARER with oidc needs it")
        return value

    if settings.get("sasl.oauthbearer.method", "default").lower() != "oidc":
        raise wrong("sasl.oauthbearer.method", "must be oidc: the driver's client can get tokens in that way only")
    metadata = settings.get("sasl.oauthbearer.metadata.authentication.type", "none").lower()
    url = part("token.endpoint.url") if metadata == "none" else settings.get(_ENDPOINT, _AZURE_METADATA)
    if not url.lower().startswith(("https://", "http://")):
        raise wrong(_ENDPOINT, "must begin with https:// or http://")
    scope = settings.get("sasl.oauthbearer.scope")
    if metadata == "azure_imds":
        request = by_azure_metadata(url, settings.get("sasl.oauthbearer.config", "").removeprefix("query="))
    elif metadata != "none":
        raise wrong("sasl.oauthbearer.metadata.authentication.type", "must be none or azure_imds")
    elif settings.get("sasl.oauthbearer.grant.type", "client_credentials").lower() == JWT_BEARER:
        request = by_assertion(url, assertion(settings), scope)
    else:
        request = by_client_secret(url, part("client.id"), part("client.secret"), scope)
    extensions = settings.get("sasl.oauthbearer.extensions", "")
    return OidcTokenProvider(
        url,
        request,
        extensions=dict(pair.split("=", 1) for pair in extensions.split(",") if "=" in pair),
        context=https_context(settings),
    )
