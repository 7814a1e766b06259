"""The option that names a provider of OAUTHBEARER's tokens, and options that are pairs."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.options import parse_pairs
from penstock_kafka.config._rules import wrong

__all__ = ["TOKEN_PROVIDER", "sasl_pairs"]

#: Ours: neither client of the protocol knows it.
TOKEN_PROVIDER = "sasl.oauthbearer.token.provider"  # noqa: S105 - a name


def sasl_pairs(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the pairs of the setting ``name``, written as ``name=value,name=value``, without blanks around.

    There are none without the setting. Raises BadConfigurationError, which does not show a part of the text.
    """
    try:
        return parse_pairs(settings.get(name, ""))
    except ValueError:
        raise wrong(name, "is written as name=value,name=value") from None
