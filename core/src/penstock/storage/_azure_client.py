"""Microsoft's client of Azure's blob storage: who asks, how often, and what its errors mean."""

from __future__ import annotations

import base64
import contextlib
import logging
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.error_codes import NOT_INSTALLED, STORE_CERTIFICATE, STORE_CREDENTIALS
from penstock.errors import BadConfigurationError, RetriableError
from penstock.per_process import PerProcess
from penstock.storage._endpoint import no_answer

if TYPE_CHECKING:
    from azure.storage.blob import BlobServiceClient

__all__ = ["Account", "asking"]

_INSTALL = "pip install 'penstock[azure]'"
#: Further tries of a request, with a pause before each, of two seconds at most.
_RETRIES, _PAUSE_S = 5, 1
#: Seconds: without an answer for so long, a connection is given up.
_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S = 10, 60
#: Addresses in messages carry the signature of a SAS token.
_QUERY = re.compile(r"\?[^\s'\")>]*")
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"


class Account(NamedTuple):
    """Where an account's blob service is, and who asks: with the account's key, a SAS token, or as the environment
    says (a managed or workload identity, a service principal, or who is logged in).
    """

    name: str
    endpoint: str
    key: str
    sas: str


def _new_client(account: Account) -> BlobServiceClient:
    try:
        import requests
        from azure.core.pipeline.transport import RequestsTransport
        from azure.storage.blob import BlobServiceClient, LinearRetry

        from penstock.storage._transport import make_careful
    except ImportError:
        raise BadConfigurationError(f"Azure needs azure-storage-blob: {_INSTALL}", error_code=NOT_INSTALLED) from None
    try:
        return BlobServiceClient(
            account.endpoint,
            credential=_credential(account),
            retry_policy=LinearRetry(_PAUSE_S, _RETRIES, random_jitter_range=_PAUSE_S),
            transport=RequestsTransport(
                session=make_careful(requests.Session()),
                connection_timeout=_CONNECT_TIMEOUT_S,
                read_timeout=_READ_TIMEOUT_S,
            ),
        )
    except ValueError as error:
        raise BadConfigurationError(
            f"{account.endpoint}: {error}; check azure.endpoint, azure.key and azure.sas"
        ) from None


def _credential(account: Account) -> Any:
    if account.key:
        from azure.core.credentials import AzureNamedKeyCredential

        base64.b64decode(account.key, validate=True)
        return AzureNamedKeyCredential(account.name, account.key)
    if account.sas:
        return account.sas
    try:
        from azure.identity import DefaultAzureCredential
    except ImportError:
        raise BadConfigurationError(f"Azure without a key needs azure-identity: {_INSTALL}") from None
    # What it has tried fills a screen, at each try. Our error says what to do.
    logging.getLogger("azure.identity").setLevel(logging.CRITICAL)
    return DefaultAzureCredential()


#: Connections are of no use in a forked process.
_clients: PerProcess[Account, BlobServiceClient] = PerProcess(_new_client, close=lambda client: client.close())


@contextlib.contextmanager
def asking(account: Account, where: str) -> Iterator[BlobServiceClient]:
    """This process's client of ``account``, for a request, with ``where`` (an address) in what goes wrong.

    Raises FileNotFoundError, FileExistsError or PermissionError as the store answers, BadConfigurationError for missing
    credentials or libraries, a malformed key, and a certificate that is not trusted, else RetriableError.
    """
    secrets = [text for text in (account.key, account.sas) if text]
    with _clients.using(account) as client, _translated(where, secrets, account.endpoint):
        yield client


@contextlib.contextmanager
def _translated(where: str, secrets: Sequence[str], endpoint: str = "") -> Iterator[None]:
    """Translates the client's errors, with ``where`` (an address) in the message, and without ``secrets``.

    Raises FileNotFoundError for what is not there, blocks as well, FileExistsError for what is, PermissionError for
    what is refused, BadConfigurationError for missing credentials and a certificate that is not trusted, else
    RetriableError.
    """
    from azure.core.exceptions import (
        AzureError,
        ClientAuthenticationError,
        HttpResponseError,
        ResourceExistsError,
        ResourceNotFoundError,
        ServiceRequestError,
    )

    try:
        yield
    except ResourceNotFoundError as error:
        raise FileNotFoundError(f"{where}: {_code(error)}") from error
    except ResourceExistsError as error:
        raise FileExistsError(f"{where}: {_code(error)}") from error
    except HttpResponseError as error:
        if _code(error) == "InvalidBlockList":
            raise FileNotFoundError(f"{where}: the blocks are not there") from error
        if error.status_code in (401, 403):
            raise PermissionError(
                f"{where}: the store refuses it ({_code(error)}); check azure.key, azure.sas and rights"
            ) from None
        if isinstance(error, ClientAuthenticationError):  # of azure-identity: no answer of the store
            raise BadConfigurationError(
                f"{where}: no credentials; give azure.key or azure.sas, or an identity by Azure's own variables",
                error_code=STORE_CREDENTIALS,
            ) from error
        raise RetriableError(f"{where}: {_code(error)}: {_said(error, secrets)}") from None
    except AzureError as error:
        if _UNTRUSTED in str(error):
            raise BadConfigurationError(
                f"{where}: the store's certificate is refused; set REQUESTS_CA_BUNDLE to the file of the authority "
                f"that signed it, or correct azure.endpoint: {_said(error, secrets)}",
                error_code=STORE_CERTIFICATE,
            ) from None
        if endpoint and isinstance(error, ServiceRequestError):
            raise no_answer(where, endpoint, "azure.endpoint", _said(error, secrets)) from None
        raise RetriableError(f"{where}: {_said(error, secrets)}") from None


def _code(error: Any) -> str:
    """Returns the store's word for what is wrong, else the status."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or error.status_code or type(error).__name__)


def _said(error: Exception, secrets: Sequence[str]) -> str:
    """Returns the first line of a message."""
    text = str(error).strip().partition("\n")[0]
    for secret in secrets:
        text = text.replace(secret, "***")
    return _QUERY.sub("?***", text)
