"""The option that names a provider of OAUTHBEARER's tokens, and the pairs that it is constructed with."""

from __future__ import annotations

from penstock.options import parse_pairs
from penstock_kafka.config._rules import wrong

__all__ = ["TOKEN_PROVIDER", "token_provider_settings"]

#: Ours: neither client of the protocol knows it.
TOKEN_PROVIDER = "sasl.oauthbearer.token.provider"  # noqa: S105 - a name


def token_provider_settings(text: str) -> dict[str, str]:
    """Returns the pairs of ``sasl.oauthbearer.config``, as ``name=value,name=value``, without blanks around.

    Raises BadConfigurationError, which does not show a part of the text.
    """
    try:
        return parse_pairs(text)
    except ValueError:
        raise wrong("sasl.oauthbearer.config", "is written as name=value,name=value for a token provider") from None
