"""OAuth tokens of an address, as librdkafka's ``sasl.oauthbearer.method=oidc`` gets them, for both clients.

:func:`penstock.token_service.ask_for_token` sends requests by http and https only.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Callable, Mapping
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request

from penstock.errors import BadConfigurationError, RetriableError
from penstock.serialization import MALFORMED
from penstock.token_service import ask_for_token
from penstock.tokens import Token, TokenProvider
from penstock_kafka.client.login._assertion import assertion
from penstock_kafka.client.login._tls import https_context
from penstock_kafka.config import wrong

__all__ = ["OidcTokenProvider", "by_client_secret", "oidc_provider"]

#: The name of the grant.
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_AZURE_METADATA = "http://169.254.169.254/metadata/identity/oauth2/token"
_TIMEOUT_S = 10


def oidc_provider(settings: Mapping[str, str]) -> OidcTokenProvider:
    """Returns the provider that ``sasl.oauthbearer.*`` describe. Reads files. Raises BadConfigurationError."""

    def part(name: str) -> str:
        if not (value := settings.get(f"sasl.oauthbearer.{name}")):
            raise wrong(f"sasl.oauthbearer.{name}", "is missing: OAUTHBEARER with oidc needs it")
        return value

    metadata = settings.get("sasl.oauthbearer.metadata.authentication.type", "none").lower()
    url = part("token.endpoint.url") if metadata == "none" else settings.get(_ENDPOINT, _AZURE_METADATA)
    if not url.lower().startswith(("https://", "http://")):
        raise wrong(_ENDPOINT, "must begin with https:// or http://")
    scope = settings.get("sasl.oauthbearer.scope")
    if metadata == "azure_imds":
        request = _by_azure_metadata(url, settings.get("sasl.oauthbearer.config", "").removeprefix("query="))
    elif metadata != "none":
        raise wrong("sasl.oauthbearer.metadata.authentication.type", "must be none or azure_imds")
    elif settings.get("sasl.oauthbearer.grant.type", "client_credentials").lower() == _JWT_BEARER:
        request = _by_assertion(url, assertion(settings), scope)
    else:
        request = by_client_secret(url, part("client.id"), part("client.secret"), scope)
    return OidcTokenProvider(url, request, context=https_context(settings))


class OidcTokenProvider(TokenProvider):
    """Asks an address for tokens. ``request`` makes what is sent to ``url`` for each. Its repr shows no secret."""

    def __init__(self, url: str, request: Callable[[], Request], *, context: ssl.SSLContext) -> None:
        self._url = url
        self._make_request = request
        self._context = context

    def token(self) -> Token:
        """Asks for a token, which blocks for up to 10 s.

        Raises RetriableError if the address can't be reached, BadConfigurationError if it refuses.
        """
        value, lifetime_s = self._request()
        return Token(value, time.time() + lifetime_s)

    def _request(self) -> tuple[str, float]:
        try:
            answer = json.loads(ask_for_token(self._make_request(), timeout_s=_TIMEOUT_S, context=self._context))
            return str(answer["access_token"]), float(answer.get("expires_in", 60))
        except HTTPError as error:
            text = f"the token address {self._url} answers with HTTP status {error.code}"
            if error.code >= 500 or error.code == 429:
                raise RetriableError(f"{text}; it may pass") from None
            if error.code < 400:
                raise BadConfigurationError(
                    f"{text}, a redirect, which is not followed because the request holds a secret: set "
                    "kafka.sasl.oauthbearer.token.endpoint.url to the address that answers itself"
                ) from None
            raise BadConfigurationError(
                f"{text}: look at kafka.sasl.oauthbearer.client.id, .client.secret and .scope"
            ) from None
        except OSError as error:
            if isinstance(reason := getattr(error, "reason", error), ssl.SSLCertVerificationError):
                raise BadConfigurationError(
                    f"the certificate of the token address {self._url} is refused: {reason.verify_message}: look at "
                    "kafka.sasl.oauthbearer.token.endpoint.url and kafka.https.ca.location"
                ) from None
            raise RetriableError(f"the token address {self._url} can't be reached: {error}") from None
        except MALFORMED:
            raise BadConfigurationError(
                f"the token address {self._url} answers without a JSON access_token: look at "
                "kafka.sasl.oauthbearer.token.endpoint.url"
            ) from None


def by_client_secret(url: str, client_id: str, client_secret: str, scope: str | None) -> Callable[[], Request]:
    """Asks with a secret: the grant of client credentials (RFC 6749, 4.4)."""
    credentials = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
    form = urlencode({"grant_type": "client_credentials", **({"scope": scope} if scope else {})}).encode()
    return lambda: Request(url, form, {"Authorization": f"Basic {credentials}"})  # noqa: S310 - see above


def _by_assertion(url: str, assertion: Callable[[], str], scope: str | None) -> Callable[[], Request]:
    """Asks with a JWT, a new one each time (RFC 7523)."""
    form = {"grant_type": _JWT_BEARER, **({"scope": scope} if scope else {})}
    return lambda: Request(url, urlencode({**form, "assertion": assertion()}).encode())  # noqa: S310 - see above


def _by_azure_metadata(url: str, query: str) -> Callable[[], Request]:
    """Asks the metadata service of the machine, which knows who that is."""
    return lambda: Request(f"{url}?{query}" if query else url, headers={"Metadata": "true"})  # noqa: S310 - see above
