"""Which settings are secret. The only place that says so: options, reprs and error texts ask here."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.options import sounds_secret
from penstock_kafka.config._java import JAVA_NAMES
from penstock_kafka.config._librdkafka import PROPERTIES
from penstock_kafka.config._tokens import TOKEN_PROVIDER

__all__ = ["hide", "is_secret_setting"]

#: Names that one of the words is a part of, but whose values are addresses, paths and public identifiers.
_PUBLIC = {
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.scram.tokenauth",
    TOKEN_PROVIDER,
}
#: A command may hold a password, and the configuration of a token whatever its handler likes.
_SECRET = {"sasl.kerberos.kinit.cmd", "sasl.oauthbearer.config", "ssl.keystore.key", "ssl_key"}


def is_secret_setting(name: str) -> bool:
    """Returns whether the value of a client setting must not be shown; ``name`` with or without ``kafka.``, in any
    case.

    Names that neither client knows count as secret: they may be a secret's name with a slip of the pen.
    """
    low = name.lower().removeprefix("kafka.")
    if low in _PUBLIC:
        return False
    return low in _SECRET or sounds_secret(low) or (low not in PROPERTIES and low not in JAVA_NAMES)


def hide(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every one of ``secrets`` replaced by ``***``, the longest first."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
