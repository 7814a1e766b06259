"""An Apache Kafka broker for development and tests: one node, its own controller or with ZooKeeper."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from penstock.dev import ContainerImage, DevServer, JarSet, LocalServer, ServerFiles, free_ports
from penstock.errors import BadConfigurationError, FatalError
from penstock_kafka.dev._properties import write_properties
from penstock_kafka.dev._readiness import check_broker, warm_up_broker
from penstock_kafka.dev._zookeeper import with_zookeeper, zookeeper_settings

__all__ = ["KafkaDevServer", "Node", "kafka_server", "new_cluster_id"]

VERSION = "4.3.1"
_NUMBERS = re.compile(r"\d+\.\d+\.\d+")
#: The first with Scala 2.13, the first that is fit for use without ZooKeeper, and the first that needs a newer Java.
_FIRST, _WITHOUT_ZOOKEEPER, _ON_JAVA_17 = (2, 4), (3, 3), (4, 0)
#: Apache's first image.
_FIRST_IMAGE = (3, 7)
_LOG_OPTIONS = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")
_ONE_COMPILER = "-XX:TieredStopAtLevel=1"
#: Few partitions of the internal topics: a fresh broker is quick. One node holds everything.
_SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "4194304",
    # A killed broker may come back only when its old session has ended: 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


@dataclass(frozen=True)
class Node:
    """A place in a cluster: every node is broker and controller. ``controllers`` maps node → its controller port."""

    number: int
    controllers: Mapping[int, int]
    cluster_id: str


class KafkaDevServer(DevServer):
    """A broker of Kafka ``version``. ``properties`` override the default settings; ``heap_mb`` is its heap.

    Before 3.3 it has a ZooKeeper of its own, which ends when it does. ``quick_start`` halves what a start costs the
    processor, and has the broker do less per second: right for tests, wrong for measuring. Alone, unless it is given a
    ``node`` of a cluster. Raises BadConfigurationError for a ``version`` that is none.
    """

    name: ClassVar[str] = "kafka"
    environment_variable: ClassVar[str] = "PENSTOCK_KAFKA_ADDRESS"
    port_count: ClassVar[int] = 2
    start_seconds: ClassVar[float] = 120

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        heap_mb: int = 512,
        quick_start: bool = False,
        node: Node | None = None,
        version: str = VERSION,
    ) -> None:
        self.version = version
        self._numbers = _numbers_of(version)
        self.title = f"Apache Kafka {version}"
        self.jars = JarSet(
            f"kafka-{version}", (f"org.apache.kafka:kafka_2.13:{version}", "org.slf4j:slf4j-simple:1.7.36")
        )
        self.properties = dict(properties or {})
        self.quick_start = quick_start
        self.heap_mb = heap_mb
        self.node = node

    def of_version(self, version: str) -> KafkaDevServer:
        """Returns a broker of another version, from 2.4.0 on. Raises BadConfigurationError for what is no version."""
        return KafkaDevServer(
            self.properties, heap_mb=self.heap_mb, quick_start=self.quick_start, node=self.node, version=version
        )

    def command(self, place: ServerFiles) -> list[str]:
        """Formats the storage on the first start; the settings are rewritten on every start.

        Raises BadConfigurationError if the folder has data of another version.
        """
        self._keep_version(place)
        settings = place.folder / "server.properties"
        write_properties(settings, self._settings(place))
        options = ["-Xms128m", f"-Xmx{self.heap_mb}m", "-XX:+UseSerialGC", *_LOG_OPTIONS]
        if self.quick_start:
            options.append(_ONE_COMPILER)
        at_least = 17 if self._numbers >= _ON_JAVA_17 else 8
        broker = place.java("kafka.Kafka", str(settings), options=options, at_least=at_least)
        if self._has_zookeeper:
            return with_zookeeper(place, broker, options=("-Xmx128m", "-XX:+UseSerialGC", _ONE_COMPILER, *_LOG_OPTIONS))
        if not (place.folder / "data" / "meta.properties").exists():
            _format_storage(place, settings, self.node.cluster_id if self.node else new_cluster_id())
        return broker

    @property
    def _has_zookeeper(self) -> bool:
        return self._numbers < _WITHOUT_ZOOKEEPER

    def _keep_version(self, place: ServerFiles) -> None:
        """Notes the version of the data in the folder."""
        note = place.folder / "version"
        earlier = note.read_text("utf-8") if note.exists() else self.version
        if earlier != self.version:
            raise BadConfigurationError(f"the data in {place.folder} is of Kafka {earlier}: start that, or delete it")
        note.write_text(self.version, "utf-8")

    def _settings(self, place: ServerFiles) -> dict[str, str]:
        port, controller_port = place.ports
        if self._has_zookeeper:
            own = zookeeper_settings(port, controller_port)
            return {**own, "log.dirs": str(place.folder / "data"), **_SETTINGS, **self.properties}
        number, controllers = (self.node.number, self.node.controllers) if self.node else (1, {1: controller_port})
        return {
            **_node_settings(number, port, controllers),
            "log.dirs": str(place.folder / "data"),
            **_SETTINGS,
            **self.properties,
        }

    def check(self, address: str, timeout_s: float) -> None:
        """A broker answers a request for metadata."""
        check_broker(address, timeout_s)

    def warm_up(self, address: str) -> None:
        """The coordinators of transactions and groups are there, so that the first producer does not wait a second."""
        warm_up_broker(address)

    def container(self, port: int) -> ContainerImage | None:
        """Kafka's own image, which takes settings as variables; there is none of versions before 3.7."""
        if self._numbers < _FIRST_IMAGE:
            return None
        settings = {
            **_node_settings(1, 9092, {1: 9093}),
            "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093",
            "advertised.listeners": f"PLAINTEXT://{self.address(port)}",
            **_SETTINGS,
            **self.properties,
        }
        variables = {_variable(name): value for name, value in settings.items()}
        variables |= {"CLUSTER_ID": new_cluster_id(), "KAFKA_HEAP_OPTS": f"-Xms128m -Xmx{self.heap_mb}m"}
        return ContainerImage(f"apache/kafka:{self.version}", 9092, variables)

    def usage(self, address: str) -> str:
        """Returns the option of the source and the sink."""
        return f'.option("kafka.bootstrap.servers", "{address}")'


def kafka_server(
    folder: Path | str,
    properties: Mapping[str, str] | None = None,
    *,
    heap_mb: int = 512,
    quick_start: bool = False,
    port: int | None = None,
    version: str = VERSION,
) -> LocalServer:
    """Returns a broker with its data in ``folder``, as a context manager; see :class:`penstock.dev.LocalServer`.

    ::

        with kafka_server(tmp_path, {"transaction.max.timeout.ms": "5000"}) as server:
            produce(server.address)
            server.kill()
            server.start()   # the same data, the same address
    """
    server = KafkaDevServer(properties, heap_mb=heap_mb, quick_start=quick_start, version=version)
    return LocalServer(server, folder, ports=None if port is None else free_ports(server.port_count, port))


def _node_settings(node: int, port: int, controllers: Mapping[int, int]) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(f"{number}@127.0.0.1:{at}" for number, at in controllers.items()),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controllers[node]}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
    }


def _variable(name: str) -> str:
    """Returns what the image reads a setting from."""
    return "KAFKA_" + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def _numbers_of(version: str) -> tuple[int, ...]:
    if _NUMBERS.fullmatch(version) is None:
        raise BadConfigurationError(f"'{version}' is no version of Kafka: write it as 3.9.1")
    numbers = tuple(int(part) for part in version.split("."))
    if numbers < _FIRST:
        raise BadConfigurationError(f"Kafka {version} is too old to be started here: from 2.4.0 on")
    return numbers


def _format_storage(place: ServerFiles, settings: Path, cluster_id: str) -> None:
    options = ("-Xmx128m", _ONE_COMPILER, *_LOG_OPTIONS)
    command = place.java("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(settings), options=options)
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise FatalError(
            f"Kafka could not format its storage in {place.folder}: {(done.stderr or done.stdout)[-2000:]}"
        )


def new_cluster_id() -> str:
    """22 characters that decode to 16 bytes, as Kafka wants it; the tool takes a leading "-" for an option."""
    return "k" + uuid.uuid4().hex[:20] + "A"
