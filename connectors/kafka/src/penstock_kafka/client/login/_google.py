"""Tokens of Google Cloud: service accounts and workload identities, by Google's library."""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from penstock.errors import BadConfigurationError, RetriableError
from penstock.tokens import Token, TokenProvider
from penstock_kafka.client.login._aws import refuse_unknown

__all__ = ["GoogleTokens"]

_INSTALL = "pip install 'penstock-kafka[google]'"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_KNOWN = ("audience",)


class GoogleTokens(TokenProvider):
    """Asks with Google's application default credentials.

    Without settings the tokens are those of Google's Managed Service for Apache Kafka. With ``audience`` they are
    Google's ID tokens for it, which any broker can check by the keys that Google publishes.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        try:
            import google.auth.transport.requests  # noqa: F401 - is it there
        except ImportError:
            raise BadConfigurationError(f"Google's tokens need google-auth: {_INSTALL}") from None
        refuse_unknown(settings, _KNOWN)
        self._audience = settings.get("audience")
        self._credentials: Any = None

    def token(self) -> Token:
        """Asks for a token."""
        from google.auth.exceptions import GoogleAuthError, TransportError
        from google.auth.transport.requests import Request

        try:
            if self._credentials is None:
                self._credentials = self._found(Request())
            self._credentials.refresh(Request())
        except TransportError as error:
            raise RetriableError(f"Google gives no token: {error}") from None
        except (GoogleAuthError, ValueError) as error:
            raise BadConfigurationError(
                f"Google gives no token: {error}: look at kafka.sasl.oauthbearer.config, or at the credentials of this "
                "machine (GOOGLE_APPLICATION_CREDENTIALS)"
            ) from None
        ends = self._credentials.expiry.replace(tzinfo=timezone.utc)
        if self._audience:
            return Token(self._credentials.token, ends.timestamp())
        return Token(self._of_managed_kafka(ends), ends.timestamp())

    def _found(self, request: Any) -> Any:
        import google.auth
        from google.oauth2.id_token import fetch_id_token_credentials

        # It warns of a missing project, which is not needed.
        logging.getLogger("google.auth._default").setLevel(logging.ERROR)
        if self._audience:
            return fetch_id_token_credentials(self._audience, request)
        return google.auth.default(scopes=[_SCOPE])[0]

    def _of_managed_kafka(self, ends: datetime) -> str:
        """Returns the access token in the form of a JWT, without a signature, as that service takes it."""
        claims = {
            "exp": ends.timestamp(),
            "iat": time.time(),
            "iss": "Google",
            "scope": "kafka",
            "sub": getattr(self._credentials, "service_account_email", ""),
        }
        parts = [json.dumps({"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}), json.dumps(claims), self._credentials.token]
        return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
