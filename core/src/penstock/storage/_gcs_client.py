"""Google's client of Cloud Storage: who asks, how often, and what its errors mean."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.error_codes import NOT_INSTALLED, STORE_CERTIFICATE, STORE_CREDENTIALS
from penstock.errors import BadConfigurationError, RetriableError
from penstock.per_process import PerProcess
from penstock.storage._endpoint import no_answer

if TYPE_CHECKING:
    from google.cloud.storage import Client

__all__ = ["Account", "asking", "how"]

_INSTALL = "pip install 'penstock[gcs]'"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
#: Tries of a request, and the seconds between them: a random share, twice as long each time.
_TRIES, _FIRST_PAUSE_S, _LONGEST_PAUSE_S = 6, 1.0, 4.0
#: Seconds: without an answer for so long, a connection is given up.
_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S = 10, 60
_MAY_PASS = frozenset((408, 429, 500, 502, 503, 504))
#: In messages, the address of an upload that is not complete is all that a reader needs to write by it.
_QUERY = re.compile(r"\?[^\s'\")>]*")
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"


class Account(NamedTuple):
    """Where the store is (empty: Google's), and who asks: with the JSON key of a service account, or as the
    environment says (Google's application default credentials). Without TLS, no credentials are sent: the store is an
    emulator.
    """

    endpoint: str
    credentials: str


def _new_client(account: Account) -> Client:
    try:
        from google.auth.transport.requests import AuthorizedSession
        from google.cloud.storage import Client

        from penstock.storage._transport import make_careful
    except ImportError:
        raise BadConfigurationError(
            f"Google's store needs google-cloud-storage: {_INSTALL}", error_code=NOT_INSTALLED
        ) from None
    credentials = _credentials(account)
    client = Client(
        project=None,
        credentials=credentials,
        _http=make_careful(AuthorizedSession(credentials)),
        client_options={"api_endpoint": account.endpoint} if account.endpoint else None,
    )
    # Or it would ask in threads of its own what bucket that is, also after each 404, for traces that are off.
    client._bucket_metadata_cache = None
    return client


def _credentials(account: Account) -> Any:
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import GoogleAuthError
    from google.oauth2.service_account import Credentials

    if account.endpoint.lower().startswith("http://"):
        return AnonymousCredentials()
    try:
        if account.credentials:
            return Credentials.from_service_account_info(json.loads(account.credentials), scopes=[_SCOPE])
    except (ValueError, TypeError, AttributeError, GoogleAuthError):
        # What is wrong with it is not shown: it may be the key.
        raise BadConfigurationError("gcs.credentials is not the JSON key of a service account") from None
    # It warns of a missing project, which is not needed.
    logging.getLogger("google.auth._default").setLevel(logging.ERROR)
    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except GoogleAuthError:
        raise BadConfigurationError(
            "no credentials for Google's store; give gcs.credentials, or set GOOGLE_APPLICATION_CREDENTIALS",
            error_code=STORE_CREDENTIALS,
        ) from None
    return credentials


#: Connections are of no use in a forked process.
_clients: PerProcess[Account, Client] = PerProcess(_new_client, close=lambda client: client.close())


def _may_pass(error: BaseException) -> bool:
    from google.auth.exceptions import TransportError
    from requests.exceptions import ChunkedEncodingError, ConnectionError, Timeout
    from urllib3.exceptions import HTTPError

    if isinstance(error, (TransportError, ConnectionError, ChunkedEncodingError, Timeout, HTTPError)):
        return _UNTRUSTED not in str(error)
    return _status(error) in _MAY_PASS


def _status(error: BaseException) -> int:
    """Returns the store's status; 0 if it has not answered."""
    answer = getattr(error, "response", None)
    return int(getattr(error, "code", None) or getattr(answer, "status_code", None) or 0)


def how() -> dict[str, Any]:
    """Returns how each request is made, as arguments of the client's methods."""
    from penstock.storage._gcs_retry import Tries

    again = Tries(_may_pass, _TRIES, _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    return {"timeout": (_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S), "retry": again}


@contextlib.contextmanager
def asking(account: Account, where: str) -> Iterator[Client]:
    """This process's client of ``account``, for a request, with ``where`` (an address) in what goes wrong.

    Raises FileNotFoundError, FileExistsError (a condition that does not hold) or PermissionError as the store answers,
    an OSError for a request that it does not take, BadConfigurationError for missing credentials or libraries and a
    certificate that is not trusted, else RetriableError.
    """
    with _clients.using(account) as client, translated(where, account.endpoint):
        yield client


@contextlib.contextmanager
def translated(where: str, endpoint: str = "") -> Iterator[None]:
    """Translates the client's errors, as :func:`asking` says."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError, RefreshError
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
    from requests.exceptions import ConnectionError, RequestException
    from urllib3.exceptions import HTTPError

    of_data = (DataCorruption, InvalidResponse, HTTPError)
    try:
        yield
    except (GoogleAPICallError, GoogleAuthError, RequestException, *of_data) as error:
        status, said = _status(error), f"{where}: {_said(error)}"
        if status == 404:
            raise FileNotFoundError(f"{where} is not there") from error
        if status == 412:
            raise FileExistsError(f"{where}: the store's condition does not hold") from error
        if status in (401, 403):
            raise PermissionError(f"{said}; check gcs.credentials and rights") from None
        if status in (400, 405, 501):
            raise OSError(errno.EINVAL, f"the store does not take the request: {_said(error)}", where) from None
        if _UNTRUSTED in str(error):
            raise BadConfigurationError(
                f"{where}: the store's certificate is refused; set REQUESTS_CA_BUNDLE to the file of the authority "
                f"that signed it, or correct gcs.endpoint: {_said(error)}",
                error_code=STORE_CERTIFICATE,
            ) from None
        if isinstance(error, RefreshError) and not error.retryable:
            raise BadConfigurationError(
                f"{where}: Google gives no token for these credentials; check gcs.credentials: {_said(error)}",
                error_code=STORE_CREDENTIALS,
            ) from None
        if endpoint and not status and isinstance(error, ConnectionError):
            raise no_answer(where, endpoint, "gcs.endpoint", _said(error)) from None
        raise RetriableError(said) from None


def _said(error: BaseException) -> str:
    """Returns the first line of a message, with the status."""
    text = str(getattr(error, "message", None) or error).strip().partition("\n")[0]
    text = _QUERY.sub("?***", text)[:500]
    return f"{_status(error)}: {text}" if _status(error) else text
