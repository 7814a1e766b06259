"""Connections, and PostgreSQL's errors as Penstock's."""

from __future__ import annotations

import contextlib
import math
import select
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from penstock.errors import BadConfigurationError, BadDataError, FatalError, RetriableError
from penstock.per_process import IdlePool

__all__ = ["Connection", "Server", "acquire", "create_if_missing", "discard", "errors", "lent", "release"]

Connection = psycopg.Connection[Any]

#: Snapshots with 64 bits (pg_current_snapshot) are there since then.
_OLDEST = 130000
#: What ends a connection attempt for good. A failed connection has no SQLSTATE, only a text.
_REFUSED = ("password", "no pg_hba.conf entry", "does not exist", "certificate", "SSL", "GSSAPI")
#: Classes of SQLSTATE, and single states: lost connections, serialization, locks, shutdowns, limits.
_PASSES = ("08", "40", "53", "55006", "55P03", "57P01", "57P02", "57P03", "57014", "58")
_WAITED = (
    "Another transaction holds the table or a key for too long. If it is prepared and of this query (select * from "
    "pg_prepared_xacts), it is an earlier attempt of the batch: restart the query, which rolls it back first"
)
_IS_DATA = ("22", "23", "21")
_IS_CONFIGURATION = ("28", "42", "3D", "3F", "0A", "55000")


@dataclass(frozen=True)
class Server:
    """Where a database is and who asks: all that opening a connection takes. Its repr hides the password."""

    host: str
    port: int
    database: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca_file: str | None = None
    check_hostname: bool = True
    request_timeout_s: float = 30.0

    def arguments(self) -> dict[str, Any]:
        """Returns the parameters of libpq. A peer that does not answer is given up after the request timeout."""
        seconds = max(2, math.ceil(self.request_timeout_s))
        timeout_ms = int(self.request_timeout_s * 1000)
        verified = "verify-full" if self.check_hostname else "verify-ca"
        given = {
            "host": self.host,
            "port": self.port,
            "dbname": self.database,
            "user": self.user,
            "password": self.password,
            "sslmode": verified if self.tls else "disable",
            "sslrootcert": (self.ca_file or _system_certificates()) if self.tls else None,
            "connect_timeout": seconds,
            "tcp_user_timeout": timeout_ms,
            "keepalives_idle": seconds,
            "keepalives_interval": max(1, seconds // 3),
            "keepalives_count": 3,
            "application_name": "penstock",
            "client_encoding": "utf8",
            "options": f"-c lock_timeout={timeout_ms} -c datestyle=ISO -c timezone=UTC",
        }
        return {name: value for name, value in given.items() if value is not None}


def _system_certificates() -> str | None:
    """The certificates of the system, which libpq knows since 16; before, ~/.postgresql/root.crt by default."""
    return "system" if psycopg.pq.version() >= 160000 else None


def acquire(server: Server) -> Connection:
    """Returns a connection of this process's own, in autocommit mode. :func:`release` it, or :func:`discard` it.

    No statement on it waits longer for a lock than the request timeout. Raises BadConfigurationError if the
    server refuses, RetriableError if it can't be reached.
    """
    while True:
        connection = _IDLE.acquire(server)
        # While it is idle, the server sends something only to say that it is closing the connection.
        if not connection.closed and not select.select([connection.fileno()], [], [], 0)[0]:
            return connection
        discard(connection)


def release(connection: Connection) -> None:
    """Keeps the connection for the next who asks, unless it is broken or in a transaction."""
    if connection.closed or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        discard(connection)
    else:
        _IDLE.release(connection)


def discard(connection: Connection) -> None:
    """Closes the connection. The server rolls back what is open on it and not prepared."""
    _IDLE.discard(connection)
    connection.close()


@contextlib.contextmanager
def lent(server: Server) -> Iterator[Connection]:
    """A connection for a block."""
    connection = acquire(server)
    try:
        yield connection
    finally:
        release(connection)


def _open(server: Server) -> Connection:
    try:
        opened = psycopg.connect(**server.arguments(), autocommit=True)
    except psycopg.Error as error:
        text = f"PostgreSQL at {server.host}:{server.port}: {_line(error)}"
        refused = "No such file" not in str(error) and any(part in str(error) for part in _REFUSED)
        raise (BadConfigurationError(text) if refused else RetriableError(text)) from error
    if opened.info.server_version < _OLDEST:
        opened.close()
        raise BadConfigurationError(f"PostgreSQL 13 or newer is needed, {server.host}:{server.port} is older")
    return opened


def _files(server: Server) -> tuple[str, ...]:
    return (server.ca_file,) if server.ca_file else ()


_IDLE = IdlePool[Server, Connection](_open, close=psycopg.Connection.close, most=8, files=_files)


@contextlib.contextmanager
def errors(what: str) -> Iterator[None]:
    """PostgreSQL's errors as Penstock's; ``what`` says where they happened: "table shop.orders"."""
    try:
        yield
    except psycopg.Error as error:
        state, text = error.sqlstate, f"{what}: {_line(error)}"
        if state is None:
            passes = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
            raise (RetriableError if passes else BadDataError)(text) from error
        if isinstance(error, psycopg.errors.LockNotAvailable):
            raise RetriableError(f"{text}. {_WAITED}") from error
        if state.startswith(_PASSES):
            raise RetriableError(text) from error
        if state.startswith(_IS_DATA):
            raise BadDataError(text) from error
        if state.startswith(_IS_CONFIGURATION):
            raise BadConfigurationError(text) from error
        raise FatalError(text) from error


def create_if_missing(connection: Connection, statement: sql.Composed) -> None:
    """Runs a ``create … if not exists``. Two of them at once fail in one, although the thing is there then."""
    with contextlib.suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
        connection.execute(statement)


def _line(error: psycopg.Error) -> str:
    """Returns the error in one line, with the server's detail and hint."""
    parts = (str(error).split("\n")[0], error.diag.message_detail, error.diag.message_hint)
    return "; ".join(part for part in parts if part) or type(error).__name__
