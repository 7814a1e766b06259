"""A PostgreSQL to play with, and Debezium's engine, which writes the changes of its tables into Kafka.

Both listen on 127.0.0.1 only, keep their data in a folder, and end when they are told to.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from penstock.dev import JarSet, fetch_jars

VERSION = "3.6.1.Final"
JARS = JarSet(
    f"debezium-{VERSION}",
    tuple(f"io.debezium:debezium-{part}:{VERSION}" for part in ("api", "embedded", "connector-postgres")),
)
HERE = Path(__file__).resolve().parent


def missing() -> str | None:
    """What keeps this from running here, and what to do about it; None if nothing does."""
    if _binaries() is None:
        return "PostgreSQL is not installed (Debian: apt install postgresql)"
    if os.geteuid() == 0 and not any(user.pw_name == "postgres" for user in pwd.getpwall()):
        return "PostgreSQL does not run as root, and there is no user 'postgres'"
    if shutil.which("javac") is None:
        return "Debezium's engine is started from source, which needs a JDK (Debian: apt install default-jdk-headless)"
    return None


def _binaries() -> str | None:
    """The folder of PostgreSQL's programs: Debian does not put them on the path."""
    return next((place for place in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)), None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Postgres:
    """A server whose log can be decoded, in a folder of its own: another user may have to enter it."""

    def __init__(self) -> None:
        self._folder = folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        self.port = _free_port()
        root = os.geteuid() == 0
        user = pwd.getpwnam("postgres") if root else pwd.getpwuid(os.geteuid())
        self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if root else {}
        if root:
            os.chown(folder, user.pw_uid, user.pw_gid)
        data, programs = str(folder / "data"), _binaries()
        made = [f"{programs}/initdb", "-D", data, "-U", "shop", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        subprocess.run(made, check=True, capture_output=True, cwd=folder, **self._as)
        settings = ["wal_level=logical", "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", "fsync=off"]
        command = [f"{programs}/postgres", "-D", data, "-p", str(self.port)]
        command += [word for setting in settings for word in ("-c", setting)]
        self._log = folder / "log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **self._as)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.run("select 1")
                return
            except subprocess.CalledProcessError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    said = self._log.read_text()
                    self.stop()
                    raise RuntimeError(f"PostgreSQL does not start: {said}") from error
                time.sleep(0.05)

    def run(self, sql: str) -> list[list[str]]:
        """Runs statements, in one transaction. Returns the rows of the last one, as texts; null is ''."""
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "shop", "-d", "postgres", "-X", "-q", "-t"]
        command += ["-A", "-F", "\t", "-1", "-v", "ON_ERROR_STOP=1", "-f", "-"]
        done = subprocess.run(command, input=sql, check=True, capture_output=True, text=True)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def stop(self) -> None:
        """Ends it at once, and removes its data."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)
        shutil.rmtree(self._folder, ignore_errors=True)


class Engine:
    """Debezium's engine for one table. A new one on the same folder continues where the last one was killed."""

    def __init__(self, folder: Path, port: int, brokers: str, table: str, prefix: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "engine.log"
        properties = {
            "name": "shop",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": folder / "offsets",
            "offset.flush.interval.ms": 200,
            "database.hostname": "127.0.0.1",
            "database.port": port,
            "database.user": "shop",
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "publication.autocreate.mode": "filtered",
            "table.include.list": table,
            "topic.prefix": prefix,
            "poll.interval.ms": 50,
        }
        file = folder / "engine.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        command = ["java", "-cp", f"{fetch_jars(JARS)}/*", str(HERE / "Engine.java"), str(file), brokers]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)

    def check(self) -> None:
        """Raises RuntimeError if it has ended by itself."""
        if self._process.poll() is not None:
            raise RuntimeError(f"Debezium's engine has ended: {self._log.read_text()[-3000:]}")

    def kill(self) -> None:
        """SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(60)
