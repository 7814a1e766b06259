"""A real HDFS: a name node and a data node, one pair for each process of the tests. Take folders of your own."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from penstock.dev import DevServer, JarSet, LocalServer, ServerFiles, free_ports
from penstock.errors import FatalError, RetriableError
from penstock.storage import HdfsStorage

__all__ = ["JARS", "Hdfs", "NameService", "hdfs", "started_hdfs", "started_name_service"]

VERSION = "3.4.3"
JARS = JarSet(
    f"hdfs-{VERSION}",
    tuple(f"org.apache.hadoop:{name}:{VERSION}" for name in ("hadoop-common", "hadoop-hdfs", "hadoop-hdfs-client")),
)
_START_S = 60.0
_COMMON = {"dfs.replication": "1", "hadoop.security.token.service.use_ip": "true"}
_LOGGING = """
log4j.rootLogger=WARN,A
log4j.appender.A=org.apache.log4j.ConsoleAppender
log4j.appender.A.layout=org.apache.log4j.PatternLayout
log4j.appender.A.layout.ConversionPattern=%d %p %c{1} %m%n
"""


def _java(place: ServerFiles, main_class: str, settings: Mapping[str, str], *arguments: str) -> list[str]:
    (place.folder / "log4j.properties").write_text(_LOGGING)
    # Both look for the pages of their web servers, which are not in the jars.
    for name in ("hdfs", "datanode"):
        (place.folder / "webapps" / name).mkdir(parents=True, exist_ok=True)
    options = [
        *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"),
        f"-Dhadoop.home.dir={place.folder}",
        f"-Dlog4j.configuration=file:{place.folder}/log4j.properties",
        f"-Xbootclasspath/a:{place.folder}",
    ]
    defined = [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
    return place.java(main_class, *defined, *arguments, options=options)


class NameNode(DevServer):
    """Its address is that of its RPC port; the second port has its state as JSON."""

    name: ClassVar[str] = "hdfs"
    title: str = f"HDFS name node {VERSION}"
    environment_variable: ClassVar[str] = "PENSTOCK_HDFS_ADDRESS"
    jars: JarSet | None = JARS
    port_count: ClassVar[int] = 2

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = properties

    def command(self, place: ServerFiles) -> list[str]:
        """Formats the folder at the first start, unless there is a copy of another one's."""
        rpc, http = place.ports
        settings = {
            **_COMMON,
            "fs.defaultFS": f"hdfs://127.0.0.1:{rpc}",
            "dfs.namenode.rpc-bind-host": "127.0.0.1",
            "dfs.namenode.http-address": f"127.0.0.1:{http}",
            "dfs.namenode.name.dir": f"file:{place.folder}/name",
            "dfs.namenode.safemode.extension": "0",
            # A file may be closed although its data node has not reported the last block yet. Clients wait half a
            # second before they ask again.
            "dfs.namenode.file.close.num-committed-allowed": "1",
            # No test ends the machine, only processes.
            "dfs.namenode.edits.noeditlogchannelflush": "true",
            **self.properties,
        }
        main = "org.apache.hadoop.hdfs.server.namenode.NameNode"
        if not (place.folder / "name").is_dir():
            command = _java(place, main, settings, "-format", "-nonInteractive")
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise FatalError(f"the name node can't be formatted: {done.stderr[-2000:]}")
        return _java(place, main, settings)

    def check(self, address: str, timeout_s: float) -> None:
        """Opens its port: :func:`started_hdfs` asks for more."""
        _connect(address, timeout_s)


class DataNode(DevServer):
    """Keeps the blocks of one name node."""

    name: ClassVar[str] = "hdfs-data"
    title: str = f"HDFS data node {VERSION}"
    environment_variable: ClassVar[str] = "PENSTOCK_HDFS_DATA_ADDRESS"
    jars: JarSet | None = JARS
    port_count: ClassVar[int] = 3

    def __init__(self, name_node: str, properties: Mapping[str, str] | None = None) -> None:
        self.name_node = name_node
        self.properties = dict(properties or {})

    def command(self, place: ServerFiles) -> list[str]:
        """Returns what runs it."""
        data, http, ipc = place.ports
        settings = {
            **_COMMON,
            "fs.defaultFS": f"hdfs://{self.name_node}",
            "dfs.datanode.data.dir": f"file:{place.folder}/data",
            "dfs.datanode.address": f"127.0.0.1:{data}",
            "dfs.datanode.http.address": f"127.0.0.1:{http}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{ipc}",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.heartbeat.interval": "1",
            **self.properties,
        }
        return _java(place, "org.apache.hadoop.hdfs.server.datanode.DataNode", settings)

    def check(self, address: str, timeout_s: float) -> None:
        """Opens its port."""
        _connect(address, timeout_s)


def _connect(address: str, timeout_s: float) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout_s).close()
    except OSError as error:
        raise RetriableError(f"{address}: {error}") from error


def _is_ready(name_node: LocalServer) -> bool:
    """Whether it takes files, or would if it were not the standby."""
    where = f"http://127.0.0.1:{name_node.ports[1]}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
    try:
        with urllib.request.urlopen(where, timeout=5) as answer:
            (state,) = json.load(answer)["beans"]
    except (OSError, ValueError):
        return False
    return bool(state["FSState"] == "Operational" and state["NumLiveDataNodes"])


def _await_ready(name_nodes: Iterable[LocalServer]) -> None:
    deadline = time.monotonic() + _START_S
    for one in name_nodes:
        while not _is_ready(one):
            if time.monotonic() > deadline:
                pytest.fail(f"HDFS is not ready after {_START_S:.0f} s; logs: {one.log}")
            time.sleep(0.05)


@dataclass
class Hdfs:
    """Both nodes. Anyone may do anything there, unless ``dfs.permissions.enabled`` is set."""

    name_node: LocalServer
    data_node: LocalServer

    @property
    def url(self) -> str:
        """``hdfs://host:port``."""
        return f"hdfs://{self.name_node.address}"

    @property
    def storage(self) -> HdfsStorage:
        """That fails at once."""
        return HdfsStorage(f"{self.url}/")

    def new_folder(self) -> str:
        """Returns a path that nothing else uses. Nothing is there yet."""
        return f"/t-{uuid.uuid4().hex[:12]}"

    def start(self) -> None:
        """Starts what does not run, and returns when files can be written."""
        stopped = [server for server in (self.name_node, self.data_node) if not server.running]
        for server in stopped:
            server.launch()
        for server in stopped:
            server.await_ready()
        _await_ready([self.name_node])


def started_hdfs(folder: Path, properties: Mapping[str, str] | None = None) -> Iterator[Hdfs]:
    """Yields an HDFS with its data in ``folder``, and ends it. ``properties`` are for the name node."""
    name_node = LocalServer(NameNode({"dfs.permissions.enabled": "false", **(properties or {})}), folder / "name")
    cluster = Hdfs(name_node, LocalServer(DataNode(name_node.address), folder / "data"))
    try:
        cluster.start()
        yield cluster
    finally:
        servers: Sequence[LocalServer] = (cluster.data_node, cluster.name_node)
        for server in servers:
            server.kill()


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """Shared by the tests of a process, none of which breaks it."""
    yield from started_hdfs(tmp_path_factory.mktemp("hdfs"))


@dataclass
class NameService:
    """Two name nodes, one of which is active, with a data node. :meth:`settings` are what Hadoop's files say."""

    name_nodes: dict[str, LocalServer]
    data_node: LocalServer
    settings: dict[str, str]

    def activate(self, name: str) -> None:
        """Makes one of them the active one, as an administrator does, whether or not the other one answers."""
        place = ServerFiles(self.name_nodes[name].folder, (), JARS.folder)
        command = _java(place, "org.apache.hadoop.hdfs.tools.DFSHAAdmin", self.settings, "-ns", "main")
        done = subprocess.run(
            [*command, "-transitionToActive", "--forceactive", name], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def write_settings(self, folder: Path) -> None:
        """For ``HADOOP_CONF_DIR``."""
        lines = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>" for name, value in self.settings.items()
        )
        for name in ("core-site.xml", "hdfs-site.xml"):
            (folder / name).write_text(f"<configuration>{lines}</configuration>")


def started_name_service(folder: Path) -> Iterator[NameService]:
    """Yields the name service ``main`` with the name nodes ``a`` (active) and ``b``, and ends it."""
    ports = {name: free_ports(2) for name in ("a", "b")}
    settings = {
        **{"fs.defaultFS": "hdfs://main", "dfs.nameservices": "main", "dfs.ha.namenodes.main": "a,b"},
        **{f"dfs.namenode.rpc-address.main.{name}": f"127.0.0.1:{rpc}" for name, (rpc, _) in ports.items()},
        **{f"dfs.namenode.http-address.main.{name}": f"127.0.0.1:{http}" for name, (_, http) in ports.items()},
        "dfs.namenode.shared.edits.dir": f"file:{folder}/edits",
        "dfs.ha.fencing.methods": "shell(/bin/true)",
        "dfs.permissions.enabled": "false",
        "dfs.client.failover.proxy.provider.main": (
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        ),
    }
    name_nodes = {
        name: LocalServer(NameNode({**settings, "dfs.ha.namenode.id": name}), folder / name, ports=ports[name])
        for name in ports
    }
    cluster = NameService(name_nodes, LocalServer(DataNode("main", settings), folder / "data"), settings)
    servers = [*name_nodes.values(), cluster.data_node]
    try:
        name_nodes["a"].launch()  # it formats the folders
        shutil.copytree(folder / "a" / "name", folder / "b" / "name", ignore=shutil.ignore_patterns("in_use.lock"))
        for server in servers[1:]:
            server.launch()
        for server in servers:
            server.await_ready()
        _await_ready(name_nodes.values())
        cluster.activate("a")
        yield cluster
    finally:
        for server in reversed(servers):
            server.kill()
