"""OAuth tokens for kafka-python, which leaves getting them to its user; librdkafka gets its own."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Mapping
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from kafka.net.sasl.oauth import AbstractTokenProvider

from penstock.errors import BadConfigurationError, RetriableError

__all__ = ["OidcTokenProvider"]

_TIMEOUT_S = 10
#: A token is renewed after this part of its life.
_USED_PART = 0.8


class OidcTokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # untyped
    """Client-credentials grant (RFC 6749, 4.4), as librdkafka's ``sasl.oauthbearer.method=oidc``. Thread-safe.

    Its repr shows neither the secret nor the token.
    """

    def __init__(
        self,
        *,
        url: str,
        client_id: str,
        client_secret: str,
        scope: str | None,
        extensions: Mapping[str, str],
        context: ssl.SSLContext,
    ) -> None:
        super().__init__()
        self._url = url
        self._credentials = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        self._form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
        self._extensions = dict(extensions)
        self._context = context
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def token(self) -> str:
        """A token that is good for a while yet; asks for a new one where needed, which blocks for up to 10 s.

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
        request = Request(self._url, urlencode(self._form).encode(), {"Authorization": f"Basic {self._credentials}"})
        try:
            with urlopen(request, timeout=_TIMEOUT_S, context=self._context) as response:
                answer = json.load(response)
            return str(answer["access_token"]), float(answer.get("expires_in", 60))
        except HTTPError as error:
            text = f"the token address {self._url} answers with HTTP status {error.code}"
            if error.code >= 500 or error.code == 429:
                raise RetriableError(f"{text}; it may pass") from None
            raise BadConfigurationError(
                f"{text}: look at kafka.sasl.oauthbearer.client.id, .client.secret and .scope"
            ) from None
        except OSError as error:
            raise RetriableError(f"the token address {self._url} can't be reached: {error}") from None
        except (ValueError, KeyError, TypeError):
            raise BadConfigurationError(
                f"the token address {self._url} answers without a JSON access_token: look at "
                "kafka.sasl.oauthbearer.token.endpoint.url"
            ) from None
