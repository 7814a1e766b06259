"""OAuth tokens for kafka-python, which leaves getting them to its user; librdkafka gets its own.

:func:`penstock.token_service.ask_for_token` sends requests by http and https only.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request

from kafka.net.sasl.oauth import AbstractTokenProvider

from penstock.errors import BadConfigurationError, RetriableError
from penstock.serialization import MALFORMED
from penstock.token_service import ask_for_token

__all__ = ["JWT_BEARER", "OidcTokenProvider", "by_assertion", "by_azure_metadata", "by_client_secret"]

#: The name of the grant.
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"

_TIMEOUT_S = 10
#: A token is renewed after this part of its life.
_USED_PART = 0.8


class OidcTokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # untyped
    """Tokens as by librdkafka's ``sasl.oauthbearer.method=oidc``. Thread-safe. Its repr shows no secret and no token.

    ``request`` makes what is sent to ``url`` for each.
    """

    def __init__(
        self, url: str, request: Callable[[], Request], *, extensions: Mapping[str, str], context: ssl.SSLContext
    ) -> None:
        super().__init__()
        self._url = url
        self._make_request = request
        self._extensions = dict(extensions)
        self._context = context
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def token(self) -> str:
        """Returns a token that is good for a while yet; asks for a new one where needed, which blocks for up to 10 s.

        Raises RetriableError if the address can't be reached, BadConfigurationError if it refuses.
        """
        with self._lock:
            if time.monotonic() >= self._renew_at:
                self._token, lifetime_s = self._request()
                self._renew_at = time.monotonic() + lifetime_s * _USED_PART
            return self._token

    def extensions(self) -> dict[str, str]:
        """SASL extensions sent with the token."""
        return dict(self._extensions)

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


def by_assertion(url: str, assertion: Callable[[], str], scope: str | None) -> Callable[[], Request]:
    """Asks with a JWT, a new one each time (RFC 7523)."""
    form = {"grant_type": JWT_BEARER, **({"scope": scope} if scope else {})}
    return lambda: Request(url, urlencode({**form, "assertion": assertion()}).encode())  # noqa: S310 - see above


def by_azure_metadata(url: str, query: str) -> Callable[[], Request]:
    """Asks the metadata service of the machine, which knows who that is."""
    return lambda: Request(f"{url}?{query}" if query else url, headers={"Metadata": "true"})  # noqa: S310 - see above
