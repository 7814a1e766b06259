"""The driver's errors as Penstock's: what to fix, what to try again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cassandra import (
    AuthenticationFailed,
    DriverException,
    InvalidRequest,
    OperationTimedOut,
    Unauthorized,
    Unavailable,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException
from cassandra.pool import NoConnectionsAvailable
from cassandra.protocol import (
    ErrorMessage,
    IsBootstrappingErrorMessage,
    OverloadedErrorMessage,
    SyntaxException,
)

from penstock.errors import BadConfigurationError, FatalError, PenstockError, RetriableError
from penstock_cassandra._error_codes import CREDENTIALS, NOT_PERMITTED, WRONG_PORT

__all__ = ["cassandra_errors", "causes_of", "translate", "was_not_applied"]

#: Answers by which a coordinator says that it did not begin, and a driver that did not send.
_NOT_BEGUN = (Unavailable, OverloadedErrorMessage, IsBootstrappingErrorMessage, NoConnectionsAvailable)

#: What TLS complains of, and what to look at. The driver leaves nothing of it but the words of OpenSSL.
_TLS_COMPLAINTS = (
    ("mismatch", "the server's certificate is not for this address: check the options 'host' and 'tls.checkHostname'"),
    ("CERTIFICATE_VERIFY_FAILED", "the server's certificate is not trusted: check the option 'tls.caFile'"),
    ("WRONG_VERSION_NUMBER", "the server does not speak TLS there: check the options 'tls' and 'port'"),
    ("_ALERT_", "the server refuses us: check the options 'tls.certFile' and 'tls.keyFile'"),
)


def translate(error: BaseException, what: str) -> PenstockError:
    """``error`` as a Penstock error, its message beginning with ``what``."""
    if isinstance(error, PenstockError):
        return error
    for cause in causes_of(error):
        if isinstance(cause, AuthenticationFailed):
            return BadConfigurationError(
                f"{what}: refused, check the options 'user' and 'password', or 'authProvider': {_words(cause)}",
                error_code=CREDENTIALS,
            )
        if isinstance(cause, Unauthorized):
            return BadConfigurationError(f"{what}: the user may not do that: {_words(cause)}", error_code=NOT_PERMITTED)
        if isinstance(cause, (InvalidRequest, SyntaxException)):
            return BadConfigurationError(f"{what}: {_words(cause)}")
        if isinstance(cause, OSError) and "SSL" in str(cause):
            for sign, advice in _TLS_COMPLAINTS:
                if sign in str(cause):
                    return BadConfigurationError(f"{what}: {advice}: {_words(cause)}", error_code=WRONG_PORT)
    if isinstance(error, NoHostAvailable):
        causes = "; ".join(sorted({f"{host}: {_words(cause)}" for host, cause in _host_errors(error).items()}))
        return RetriableError(
            f"{what}: no node answers ({causes or error}). Check the options 'host' and 'port'; a node that wants TLS "
            "(option 'tls') or a certificate (option 'tls.certFile') may end a connection without a word"
        )
    if isinstance(error, (OperationTimedOut, DriverException, ConnectionException, ErrorMessage, OSError)):
        return RetriableError(f"{what}: {_words(error)}")
    return FatalError(f"{what}: {type(error).__name__}: {error}")


def was_not_applied(error: BaseException) -> bool:
    """Returns whether a failed write has certainly not been applied, nor ever will be. A timeout says neither."""
    if isinstance(error, NoHostAvailable):
        causes = list(_host_errors(error).values())
        return all(isinstance(cause, _NOT_BEGUN) for cause in causes)
    return isinstance(error, _NOT_BEGUN)


def _host_errors(error: NoHostAvailable) -> dict[str, BaseException]:
    return {str(host): cause for host, cause in error.errors.items()} if isinstance(error.errors, dict) else {}


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yields the error and, where no node could be used, what each of them failed with."""
    yield error
    if isinstance(error, NoHostAvailable):
        yield from _host_errors(error).values()


def _words(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    message = getattr(error, "message", None)
    return message if isinstance(message, str) and message else text


@contextmanager
def cassandra_errors(what: str) -> Iterator[None]:
    """Errors of the driver that are raised inside come out as Penstock's."""
    try:
        yield
    except Exception as error:
        translated = translate(error, what)
        if translated is error:
            raise
        raise translated from error
