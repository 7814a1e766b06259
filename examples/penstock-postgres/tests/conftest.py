"""A PostgreSQL of the tests' own, where it is installed: on a socket in its folder, reached by no network."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import psycopg
import pytest
from penstock_postgres.client import CopyIn, Server, acquire, describe, discard, release

SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
max_prepared_transactions = 64
max_connections = 60
fsync = off
full_page_writes = off
shared_buffers = 32MB
timezone = 'UTC'
"""


def _binaries() -> str | None:
    """The folder of PostgreSQL's programs: Debian does not put ``initdb`` and ``postgres`` on the path."""
    on_path = shutil.which("postgres")
    places = [os.path.dirname(on_path)] if on_path else []
    if shutil.which("pg_config"):
        places.append(subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True).stdout.strip())
    places += sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]), reverse=True)
    return next((place for place in places if os.path.exists(f"{place}/initdb")), None)


def _missing() -> str | None:
    if _binaries() is None:
        return "PostgreSQL is not installed (Debian: apt install postgresql)"
    if os.geteuid() == 0 and not any(user.pw_name == "postgres" for user in pwd.getpwall()):
        return "PostgreSQL does not run as root, and there is no user 'postgres'"
    return None


class Postgres:
    """A server that can be stopped and started again. Tests share it; each has a schema of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        user = pwd.getpwnam("postgres") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        self._user = user.pw_name
        self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        if os.geteuid() == 0:
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        data = str(self.folder / "data")
        command = [f"{_binaries()}/initdb", "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-locale"]
        subprocess.run([*command, "--no-sync"], check=True, capture_output=True, cwd=self.folder, **self._as)
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.write(SETTINGS.format(folder=self.folder))
        self._process: subprocess.Popen[bytes] | None = None
        self._own = None
        self.start()

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            command = [f"{_binaries()}/postgres", "-D", str(self.folder / "data")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self._as)
        until = time.monotonic() + 60
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < until, (self.folder / "log").read_text()
                time.sleep(0.02)

    def stop(self) -> None:
        """Ends it on the spot: the next start recovers from its log, as after a power failure."""
        if self._own is not None:
            self._own.close()
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(60)

    @contextlib.contextmanager
    def stopped(self):
        self.stop()
        try:
            yield
        finally:
            self.start()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def connect(self):
        return psycopg.connect(host=str(self.folder), dbname="postgres", user="tester", autocommit=True)

    def run(self, statement, values=None):
        """Runs one statement; returns its rows, if it has any."""
        if self._own is None or self._own.closed:
            self._own = self.connect()
        cursor = self._own.execute(statement, values)
        return cursor.fetchall() if cursor.description else []

    def table(self, columns: str) -> str:
        """Makes an empty table, alone in its schema. Returns its name."""
        schema = f"s{uuid.uuid4().hex}"
        self.run(f"create schema {schema}")
        self.run(f"create table {schema}.rows ({columns})")
        return f"{schema}.rows"

    def options(self, table: str) -> dict[str, str]:
        return {
            "host": str(self.folder),
            "database": "postgres",
            "table": table,
            "user": "tester",
            "retryTimeout": "200ms",
            "requestTimeout": "20s",
        }

    def prepared(self, table: str) -> list[str]:
        """The prepared transactions that write to ``table``, and have the lock that says so."""
        found = """
            select p.gid from pg_prepared_xacts p
            join pg_locks own on own.transactionid = p.transaction and own.pid is null
            join pg_locks held on held.virtualtransaction = own.virtualtransaction and held.pid is null
            where held.relation = %s::regclass
        """
        return [gid for (gid,) in self.run(found, [table])]


@pytest.fixture(scope="session")
def postgres():
    reason = _missing()
    if reason:
        pytest.skip(reason)
    server = Postgres()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def types(postgres):
    postgres.run("create type mood as enum ('happy')")
    postgres.run("create domain positive as int4 check (value > 0)")


@pytest.fixture
def write(postgres, types):
    def into(table, *batches):
        connection = acquire(Server(str(postgres.folder), 5432, "postgres", "tester"))
        try:
            described = describe(connection, table)
            copy = CopyIn(connection, described.path, [described.column(name) for name in batches[0].schema.names])
            try:
                for batch in batches:
                    copy.write(batch)
                copy.finish()
            except BaseException:
                copy.abort()
                discard(connection)
                raise
        finally:
            release(connection)

    return into
