"""What is at the nodes' addresses, where no Cassandra node answers."""

from __future__ import annotations

from cassandra import AuthenticationFailed

from penstock.errors import BadConfigurationError, PenstockError, RetriableError
from penstock.reach import look_at_all
from penstock_cassandra._error_codes import NO_NODE, WRONG_PORT
from penstock_cassandra.client._errors import causes_of
from penstock_cassandra.client._settings import ConnectionSettings

__all__ = ["wrong_port"]

_ADVICE = {
    "tls": "set the option tls to true, or name the port without TLS",
    "plain": "set the option tls to false, or name the port with TLS",
    "other": "correct the options host and port",
}


def wrong_port(settings: ConnectionSettings, error: Exception, what: str) -> PenstockError | None:
    """Returns what is wrong at all addresses of nodes that could not be connected to; ``None``: nothing can be seen, or
    ``error`` says what a server has answered.
    """
    if settings.bundle or any(isinstance(one, (AuthenticationFailed, PenstockError)) for one in causes_of(error)):
        return None
    addresses = [f"[{host}]:{settings.port}" if ":" in host else f"{host}:{settings.port}" for host in settings.hosts]
    seen = look_at_all(addresses, tls=settings.tls, protocol="Cassandra")
    if seen is None:
        return None
    if not seen.may_pass:
        advice = _ADVICE[seen.kind]
        return BadConfigurationError(f"{what}: no node answers: {seen.text}: {advice}", error_code=WRONG_PORT)
    return RetriableError(
        f"{what}: no node answers: {seen.text}. Correct the options host and port, or try again once a node answers",
        error_code=NO_NODE,
    )
