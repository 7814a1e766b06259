"""What is wrong with a login, before anything connects."""

from __future__ import annotations

from collections.abc import Mapping

from penstock_kafka.client.login._source import token_source
from penstock_kafka.config import TOKEN_PROVIDER, wrong

__all__ = ["check_login", "refuse_delegation_token"]


def check_login(settings: Mapping[str, str], client: str) -> None:
    """Raises BadConfigurationError for a login that can't work with ``client`` (an option's choice).

    Such as one that it does not know, or a provider of tokens that can't be imported, lacks its library, or refuses its
    settings. Asks for no token.
    """
    if client == "librdkafka":
        refuse_delegation_token(settings)
    if TOKEN_PROVIDER in settings:
        token_source(settings)


def refuse_delegation_token(settings: Mapping[str, str]) -> None:
    """Raises BadConfigurationError if these settings, for librdkafka, ask for a delegation token."""
    if settings.get("sasl.scram.tokenauth") == "true":
        raise wrong("sasl.scram.tokenauth", "is known to client=protocol only: librdkafka has no delegation tokens")
