"""The source of OAUTHBEARER's tokens that settings describe, one for all clients of a process."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.options import names_object
from penstock.per_process import PerProcess
from penstock.tokens import TokenProvider, TokenSource, load_token_provider
from penstock_kafka.client.login._oidc import oidc_provider
from penstock_kafka.config import TOKEN_PROVIDER, files_of, sasl_pairs, wrong

__all__ = ["given_extensions", "token_source"]

#: Providers that have a name, by vendors' libraries.
_NAMED = {
    "aws_msk_iam": "penstock_kafka.client.login._aws:AwsMskIamTokens",
    "azure": "penstock_kafka.client.login._azure:AzureTokens",
    "google": "penstock_kafka.client.login._google:GoogleTokens",
}
_OF_TOKENS = ("sasl.oauthbearer.", "https.")
_MSK_BROKER = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")
_EVENT_HUB = re.compile(r"([\w-]+\.servicebus\.[\w.]+)")

_Settings = tuple[tuple[str, str], ...]


def _provider(settings: Mapping[str, str]) -> tuple[TokenProvider, str]:
    reference = settings.get(TOKEN_PROVIDER)
    if reference is None:
        return oidc_provider(settings), f"the token address {settings.get('sasl.oauthbearer.token.endpoint.url', '')}"
    owner = f"option 'kafka.{TOKEN_PROVIDER}'"
    if reference not in _NAMED and not names_object(reference):
        raise wrong(TOKEN_PROVIDER, f"is {', '.join(_NAMED)}, or module:Class")
    given = sasl_pairs("sasl.oauthbearer.config", settings)
    given = {**_told_by_address(reference, settings.get("bootstrap.servers", "")), **given}
    return load_token_provider(owner, _NAMED.get(reference, reference), given), f"the token provider {reference}"


def _told_by_address(reference: str, servers: str) -> dict[str, str]:
    """Returns what a vendor's addresses say: the region of a cluster, who its tokens are for."""
    if reference == "aws_msk_iam" and (region := _MSK_BROKER.search(servers)):
        return {"region": region[1]}
    if reference == "azure" and (hub := _EVENT_HUB.search(servers)):
        return {"scope": f"https://{hub[1]}/.default"}
    return {}


def _made(settings: _Settings) -> TokenSource:
    return TokenSource(*_provider(dict(settings)))


_sources: PerProcess[_Settings, TokenSource] = PerProcess(_made, files=files_of)


def token_source(settings: Mapping[str, str]) -> TokenSource:
    """Returns this process's source of tokens for ``settings``, in librdkafka's spelling.

    Raises BadConfigurationError for settings that can't be used and for a library that is missing.
    """
    kept = {name: text for name, text in settings.items() if name.startswith(_OF_TOKENS)}
    if TOKEN_PROVIDER in kept:
        kept["bootstrap.servers"] = settings.get("bootstrap.servers", "")
    return _sources.get(tuple(sorted(kept.items())))


def given_extensions(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the SASL extensions that ``settings`` name; a provider of tokens may add others."""
    return sasl_pairs("sasl.oauthbearer.extensions", settings)
