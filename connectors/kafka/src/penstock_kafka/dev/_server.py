"""An Apache Kafka broker for development and tests: KRaft, one node that is broker and controller."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from penstock.dev import ContainerImage, DevServer, JarSet, LocalServer, ServerFiles, free_ports
from penstock.errors import FatalError
from penstock_kafka.dev._readiness import check_broker, warm_up_broker

__all__ = ["KafkaDevServer", "Node", "kafka_server", "new_cluster_id"]

VERSION = "4.3.1"
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
    """A broker of Kafka 4.3.1. ``properties`` override the default settings; ``heap_mb`` is its heap.

    ``quick_start`` halves what a start costs the processor, and has the broker do less per second: right for tests,
    wrong for measuring. Alone, unless it is given a ``node`` of a cluster.
    """

    name: ClassVar[str] = "kafka"
    title: ClassVar[str] = f"Apache Kafka {VERSION}"
    environment_variable: ClassVar[str] = "PENSTOCK_KAFKA_ADDRESS"
    jars: ClassVar[JarSet | None] = JarSet(
        f"kafka-{VERSION}", (f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")
    )
    port_count: ClassVar[int] = 2
    start_seconds: ClassVar[float] = 120

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        heap_mb: int = 512,
        quick_start: bool = False,
        node: Node | None = None,
    ) -> None:
        self.properties = dict(properties or {})
        self.quick_start = quick_start
        self.heap_mb = heap_mb
        self.node = node

    def command(self, place: ServerFiles) -> list[str]:
        """Formats the storage on the first start; the settings are rewritten on every start."""
        settings = place.folder / "server.properties"
        _write_properties(settings, self._settings(place))
        if not (place.folder / "data" / "meta.properties").exists():
            _format_storage(place, settings, self.node.cluster_id if self.node else new_cluster_id())
        options = ["-Xms128m", f"-Xmx{self.heap_mb}m", "-XX:+UseSerialGC", *_LOG_OPTIONS]
        if self.quick_start:
            options.append(_ONE_COMPILER)
        return place.java("kafka.Kafka", str(settings), options=options)

    def _settings(self, place: ServerFiles) -> dict[str, str]:
        port, controller_port = place.ports
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

    def container(self, port: int) -> ContainerImage:
        """Kafka's own image; it takes settings as variables."""
        settings = {
            **_node_settings(1, 9092, {1: 9093}),
            "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093",
            "advertised.listeners": f"PLAINTEXT://{self.address(port)}",
            **_SETTINGS,
            **self.properties,
        }
        variables = {_variable(name): value for name, value in settings.items()}
        variables |= {"CLUSTER_ID": new_cluster_id(), "KAFKA_HEAP_OPTS": f"-Xms128m -Xmx{self.heap_mb}m"}
        return ContainerImage(f"apache/kafka:{VERSION}", 9092, variables)

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
) -> LocalServer:
    """Returns a broker with its data in ``folder``, as a context manager; see :class:`penstock.dev.LocalServer`.

    ::

        with kafka_server(tmp_path, {"transaction.max.timeout.ms": "5000"}) as server:
            produce(server.address)
            server.kill()
            server.start()   # the same data, the same address
    """
    server = KafkaDevServer(properties, heap_mb=heap_mb, quick_start=quick_start)
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


def _write_properties(path: Path, settings: Mapping[str, str]) -> None:
    # In this format a backslash escapes.
    lines = [f"{name}={value}".replace("\\", "\\\\") for name, value in settings.items()]
    path.write_text("\n".join(lines) + "\n", "utf-8")


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
