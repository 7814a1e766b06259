"""Where to look when brokers refuse a login."""

from __future__ import annotations

from collections.abc import Mapping

from penstock_kafka.config import TOKEN_PROVIDER

__all__ = ["login_advice"]


def login_advice(settings: Mapping[str, str]) -> str:
    """Returns the mechanism of ``settings`` and the options that decide, as the end of an error's text."""
    protocol = settings.get("security.protocol", "plaintext").upper()
    if not protocol.startswith("SASL"):
        return f"kafka.security.protocol is {protocol}: look at it, at kafka.ssl.ca.* and at the client's certificate"
    mechanism = settings.get("sasl.mechanism", "GSSAPI").upper()
    return f"the login is {protocol} by {mechanism}: look at {_options_of(mechanism, settings)}"


def _options_of(mechanism: str, settings: Mapping[str, str]) -> str:
    if mechanism == "GSSAPI":
        return "kafka.sasl.kerberos.principal, kafka.sasl.kerberos.keytab and kafka.sasl.kerberos.service.name"
    if mechanism != "OAUTHBEARER":
        return "kafka.sasl.username, kafka.sasl.password and kafka.sasl.mechanism"
    if provider := settings.get(TOKEN_PROVIDER):
        return f"kafka.{TOKEN_PROVIDER} ({provider}) and kafka.sasl.oauthbearer.config"
    return "kafka.sasl.oauthbearer.client.id, kafka.sasl.oauthbearer.scope and what the brokers expect of a token"
