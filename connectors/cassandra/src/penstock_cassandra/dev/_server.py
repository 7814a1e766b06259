"""An Apache Cassandra server for development and tests: one node, on the loopback address."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from penstock.dev import ContainerImage, DevServer, JarSet, LocalServer, ServerFiles
from penstock.errors import FatalError, PenstockError, RetriableError
from penstock_cassandra.client import Client, ConnectionSettings
from penstock_cassandra.dev._releases import NEWEST, Release
from penstock_cassandra.dev._settings import (
    ALONE,
    JOINING,
    KILLED,
    java_options,
    nodetool_options,
    server_settings,
    write_logging,
    write_settings,
)

__all__ = ["CassandraDevServer", "CassandraServer", "cassandra_server"]


class CassandraDevServer(DevServer):
    """A node of Cassandra ``version``. ``settings`` override the defaults in cassandra.yaml; ``None`` leaves one out.
    They have the names of Cassandra 5, whatever the version.

    ``heap_mb`` is its heap (it takes 200 MB more). ``connection`` is how :meth:`check` connects, for a server that
    wants a password or TLS. ``quick_start`` spends less on compiling: right for tests, wrong for measuring. ``seed`` is
    where other nodes reach the one that it joins, as ``host:port``; unset, it is alone.
    """

    name: ClassVar[str] = "cassandra"
    environment_variable: ClassVar[str] = "PENSTOCK_CASSANDRA_ADDRESS"
    #: For clients, for other nodes, for nodetool.
    port_count: ClassVar[int] = 3
    start_seconds: ClassVar[float] = 180

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        heap_mb: int = 512,
        quick_start: bool = False,
        connection: Mapping[str, Any] | None = None,
        seed: str | None = None,
        version: str = NEWEST,
    ) -> None:
        self.release = Release(version)
        self.title = f"Apache Cassandra {version}"
        self.jars = JarSet(f"cassandra-{version}", self.release.artifacts)
        self.settings = dict(settings or {})
        self.heap_mb = heap_mb
        self.quick_start = quick_start
        self.connection = dict(connection or {})
        self.seed = seed

    def of_version(self, version: str) -> CassandraDevServer:
        """Returns a node of another version, from 3.11.0 on. Raises BadConfigurationError for what is no version."""
        return CassandraDevServer(
            self.settings,
            heap_mb=self.heap_mb,
            quick_start=self.quick_start,
            connection=self.connection,
            seed=self.seed,
            version=version,
        )

    def command(self, place: ServerFiles) -> list[str]:
        """Rewrites the settings on every start; data stays.

        Raises BadConfigurationError if the folder has data of another version.
        """
        place.keep_version(self.title)
        port, storage_port, control_port = place.ports
        (place.folder / "tmp").mkdir(exist_ok=True)
        settings = server_settings(place.folder, port, storage_port, self.seed) | self.settings
        write_settings(place.folder / "cassandra.yaml", self.release.named(settings))
        write_logging(place.folder / "logback.xml")
        assert place.jars is not None
        (agent,) = place.jars.glob("jamm-*.jar")
        options = [
            *java_options(self.release),
            *(ALONE if self.seed is None else JOINING),
            *(["-XX:TieredStopAtLevel=1"] if self.quick_start else []),
            f"-Xms{self.heap_mb}m",
            f"-Xmx{self.heap_mb}m",
            f"-javaagent:{agent}",
            f"-Djava.io.tmpdir={place.folder / 'tmp'}",
            f"-Djna.tmpdir={place.folder / 'tmp'}",
            f"-Dcassandra.config=file://{place.folder / 'cassandra.yaml'}",
            f"-Dlogback.configurationFile={place.folder / 'logback.xml'}",
            f"-Dcassandra.storagedir={place.folder}",
            f"-Dcassandra.jmx.local.port={control_port}",
        ]
        at_least, at_most = self.release.java
        daemon = "org.apache.cassandra.service.CassandraDaemon"
        return place.java(daemon, options=options, at_least=at_least, at_most=at_most)

    def check(self, address: str, timeout_s: float) -> None:
        """A node answers a query."""
        host, _, port = address.rpartition(":")
        settings = ConnectionSettings(
            hosts=(host,), port=int(port), connect_timeout_s=timeout_s, request_timeout_s=timeout_s, **self.connection
        )
        try:
            with Client(settings) as client:
                client.rows("select release_version from system.local")
        except PenstockError as error:
            raise RetriableError(f"no server answers at {address}: {error}") from error

    def container(self, port: int) -> ContainerImage:
        """Cassandra's own image."""
        heap = f"{self.heap_mb}M"
        variables = {"MAX_HEAP_SIZE": heap, "HEAP_NEWSIZE": "100M", "CASSANDRA_BROADCAST_ADDRESS": "127.0.0.1"}
        variables["JVM_EXTRA_OPTS"] = "-Dcassandra.size_recorder_interval=5 -Dcassandra.superuser_setup_delay_ms=0"
        return ContainerImage(f"cassandra:{self.release.version}", 9042, variables)

    def usage(self, address: str) -> str:
        """Returns the options of the source and the sink."""
        host, _, port = address.rpartition(":")
        return f'.option("host", "{host}").option("port", {port})'


class CassandraServer(LocalServer):
    """A private node, with Cassandra's own tool for operators."""

    def nodetool(self, *arguments: str) -> str:
        """Returns what ``nodetool`` prints (a JVM's start: about 2 s). Raises FatalError if it fails."""
        assert isinstance(self.server, CassandraDevServer) and self.server.jars is not None
        place = ServerFiles(self.folder, self.ports, self.server.jars.folder)
        options = [*nodetool_options(self.server.release), f"-Dcassandra.storagedir={self.folder / 'nodetool'}"]
        options.append(f"-Dlogback.configurationFile={self.folder / 'logback.xml'}")
        where = ("-h", "127.0.0.1", "-p", str(self.ports[2]))
        command = place.java("org.apache.cassandra.tools.NodeTool", *where, *arguments, options=options)
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise FatalError(f"nodetool {' '.join(arguments)} failed: {(done.stderr or done.stdout)[-1000:]}")
        return done.stdout


def cassandra_server(
    folder: Path | str,
    settings: Mapping[str, Any] | None = None,
    *,
    heap_mb: int = 512,
    quick_start: bool = False,
    connection: Mapping[str, Any] | None = None,
    version: str = NEWEST,
) -> CassandraServer:
    """Returns a server with its data in ``folder``, as a context manager; see :class:`penstock.dev.LocalServer`.

    Killed at any time, it has what it acknowledged, which costs a write some milliseconds (``commitlog_sync: group``).

    ::

        with cassandra_server(tmp_path) as server:
            write(server.address)
            server.kill()
            server.start()   # the same data, the same address
    """
    settings = {**KILLED, **(settings or {})}
    kind = CassandraDevServer(
        settings, heap_mb=heap_mb, quick_start=quick_start, connection=connection, version=version
    )
    return CassandraServer(kind, folder)
