"""Tokens of a Keycloak that guards a Pravega, fetched and renewed.

A service account gets an access token for its id and secret (OAuth 2.0, RFC 6749, section 4.4), and for that one with
its permissions on ``pravega-controller`` (User-Managed Access 2.0, section 3.3.1), as Pravega's own clients do.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request

from penstock.errors import BadConfigurationError, FatalError, RetriableError
from penstock.per_process import PerProcess
from penstock.printable import get_logger
from penstock.serialization import MALFORMED
from penstock.tls import client_context
from penstock.token_service import ask_for_token

__all__ = ["KeycloakCredentials"]

_log = get_logger("penstock.pravega")
_TRIES, _PAUSE_S = 4, 0.5
#: A token is renewed so long before its end, or at three quarters of its time.
_SLACK_S = 30.0
_MOST_REASON = 1 << 16
_UMA_TICKET = "urn:ietf:params:oauth:grant-type:uma-ticket"


@dataclass(frozen=True)
class KeycloakCredentials:
    """A service account of the realm at ``server`` (a URL). Picklable: each process fetches tokens of its own.

    ``ca_file`` (PEM): authorities that are trusted besides the system's. The repr hides the secret.
    """

    server: str
    realm: str
    client: str
    secret: str = field(repr=False)
    audience: str = "pravega-controller"
    ca_file: str | None = None
    timeout_s: float = 30.0

    @classmethod
    def from_file(cls, path: str, ca_file: str | None, timeout_s: float) -> KeycloakCredentials:
        """Returns the account of a ``keycloak.json``, as Keycloak hands it out. Raises BadConfigurationError."""
        try:
            found = json.loads(Path(path).read_text("utf-8"))
            fields = found["auth-server-url"], found["realm"], found["resource"], found["credentials"]["secret"]
        except (OSError, UnicodeDecodeError) as error:
            raise BadConfigurationError(f"Keycloak's file {path} can't be read: {error}") from None
        except (ValueError, KeyError, TypeError):
            raise BadConfigurationError(
                f"Keycloak's file {path} must be JSON with auth-server-url, realm, resource and credentials.secret"
            ) from None
        if not all(isinstance(each, str) and each for each in fields):
            raise BadConfigurationError(
                f"Keycloak's file {path}: each of auth-server-url, realm, resource, secret is a text"
            )
        if not fields[0].startswith(("http://", "https://")):
            raise BadConfigurationError(f"Keycloak's file {path}: auth-server-url is no http:// or https:// address")
        return cls(*fields, ca_file=ca_file, timeout_s=timeout_s)

    @property
    def header(self) -> str:
        """The value of the header *authorization*: the token of this process, a new one if it is about to end.

        Raises BadConfigurationError if Keycloak refuses, RetriableError if it does not answer.
        """
        return f"Bearer {_tokens.get(self).current()}"

    def renew(self, refused: str) -> bool:
        """Forgets the token that was ``refused``. Returns True: another one can be fetched."""
        _tokens.get(self).forget(refused.removeprefix("Bearer "))
        return True

    def fetch(self) -> tuple[str, float]:
        """Fetches a token. Returns it with its lifetime in seconds."""
        account = {"grant_type": "client_credentials", "client_id": self.client, "client_secret": self.secret}
        access = self._ask(account, {})["access_token"]
        permissions = {"grant_type": _UMA_TICKET, "audience": self.audience}
        answer = self._ask(permissions, {"Authorization": f"Bearer {access}"})
        return answer["access_token"], answer["expires_in"]

    def _ask(self, form: dict[str, str], headers: dict[str, str]) -> dict[str, Any]:
        url = f"{self.server.rstrip('/')}/realms/{quote(self.realm)}/protocol/openid-connect/token"
        request = Request(url, urlencode(form).encode(), headers)  # noqa: S310 - its file was checked
        for left in reversed(range(_TRIES)):
            try:
                answer = ask_for_token(request, timeout_s=self.timeout_s, context=self._tls_context())
                return self._checked(answer)
            except HTTPError as error:
                said = f"{_reason(error.read(_MOST_REASON))} (HTTP {error.code})"
                if error.code < 400:
                    raise BadConfigurationError(
                        f"Keycloak at {self.server} answers with a redirect (HTTP {error.code}), which is not followed "
                        "because the request holds a secret: write the address that answers itself into keycloakFile"
                    ) from None
                if error.code < 500:
                    raise BadConfigurationError(
                        f"Keycloak at {self.server} refuses client '{self.client}' of realm '{self.realm}': {said}"
                    ) from None
                failure = said
            except URLError as error:
                if isinstance(error.reason, ssl.SSLCertVerificationError):
                    raise BadConfigurationError(
                        f"the certificate of Keycloak at {self.server} is refused: {error.reason.verify_message}. Set "
                        "tls.caFile to the certificate of the authority that signed it"
                    ) from None
                failure = str(error.reason)
            except OSError as error:
                failure = str(error) or type(error).__name__
            if not left:
                raise RetriableError(f"no token from Keycloak at {self.server}: {failure}") from None
            _log.info("no token from Keycloak at %s: %s; trying again", self.server, failure)
            time.sleep(_PAUSE_S)
        raise AssertionError

    def _checked(self, answer: bytes) -> dict[str, Any]:
        try:
            found = json.loads(answer)
            if isinstance(found["access_token"], str):
                return {**found, "expires_in": float(found.get("expires_in", 60))}
        except MALFORMED:
            pass
        raise FatalError(f"what answers at {self.server} gives no token: it is no Keycloak, or none that is known")

    def _tls_context(self) -> ssl.SSLContext | None:
        if not self.server.startswith("https://"):
            return None
        context = client_context()
        if self.ca_file is not None:
            try:
                context.load_verify_locations(self.ca_file)
            except OSError as error:
                raise BadConfigurationError(f"the file of certificates {self.ca_file} can't be used: {error}") from None
        return context


def _reason(answer: bytes) -> str:
    try:
        found = json.loads(answer)
        return f"{found['error']}: {found.get('error_description', 'no reason given')}"
    except MALFORMED:
        return "no reason given"


class _Token:
    """The token of an account, fetched when it is asked for. Thread-safe: one thread fetches, the others wait."""

    def __init__(self, account: KeycloakCredentials) -> None:
        self._account = account
        self._lock = threading.Lock()
        self._token = ""
        self._ends = 0.0

    def current(self) -> str:
        """Returns a token that lasts for a while yet."""
        with self._lock:
            if time.monotonic() >= self._ends:
                self._token, lasts_s = self._account.fetch()
                self._ends = time.monotonic() + max(lasts_s - _SLACK_S, 0.75 * lasts_s)
            return self._token

    def forget(self, token: str) -> None:
        """Has another one fetched, unless another thread has done so since."""
        with self._lock:
            if self._token == token:
                self._ends = 0.0


_tokens = PerProcess(_Token)
