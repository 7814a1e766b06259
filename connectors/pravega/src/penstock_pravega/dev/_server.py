"""A standalone Pravega for development and tests: controller, segment store and ZooKeeper in one process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from penstock.dev import ContainerImage, DevServer, LocalServer, ServerFiles
from penstock.errors import BadConfigurationError, RetriableError
from penstock_pravega.client import Controller, ControllerSettings
from penstock_pravega.dev._jars import NEWEST, pravega_jars
from penstock_pravega.dev._loopback import loopback_library

__all__ = ["PravegaDevServer", "pravega_server"]

#: Memory outside of the heap, taken as it is needed.
_CACHE_MB = 512
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_LOG_CONFIGURATION = (
    "<configuration>"
    '<appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>'
    "<pattern>%d{{ISO8601}} %-5level [%thread] %logger{{20}} - %msg%n</pattern></encoder></appender>"
    '<root level="{level}"><appender-ref ref="out"/></root>'
    "</configuration>"
)

#: What tests would wait for is done each second instead of every ten. And long-term storage, which is memory too, takes
#: its time: what writes to it looks at every segment again after each of its steps, which is a third of all that a
#: server with hundreds of segments does. No reader or writer waits for it.
_FOR_TESTS = {
    "controller.watermarking.frequency.seconds": "1",
    "storageextra.slow.enable": "true",
    "storageextra.slow.type": "FIXED_DISTRIBUTION_TYPE",
    "storageextra.slow.latency.mean.ms": "50",
}


class PravegaDevServer(DevServer):
    """Pravega ``version``, standalone: everything is in memory and gone when it ends.

    ``heap_mb`` bounds what it can hold. ``properties`` override the default settings. ``quick_start`` spends less on
    compiling and on long-term storage, and sets marks for noted times each second: right for tests, wrong for
    measuring.
    """

    name: ClassVar[str] = "pravega"
    environment_variable: ClassVar[str] = "PENSTOCK_PRAVEGA_ADDRESS"
    #: Controller, segment store, ZooKeeper.
    port_count: ClassVar[int] = 3
    start_seconds: ClassVar[float] = 120

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        heap_mb: int = 768,
        quick_start: bool = False,
        version: str = NEWEST,
    ) -> None:
        if _VERSION.fullmatch(version) is None:
            raise BadConfigurationError(f"'{version}' is no version of Pravega: write it as {NEWEST}")
        self.version = version
        self.title = f"Pravega {version} standalone"
        self.jars = pravega_jars(version)
        self.properties = dict(properties or {})
        self.heap_mb = heap_mb
        self.quick_start = quick_start

    def of_version(self, version: str) -> PravegaDevServer:
        """Returns a server of another version. Raises BadConfigurationError for what is no version."""
        return PravegaDevServer(self.properties, heap_mb=self.heap_mb, quick_start=self.quick_start, version=version)

    def command(self, place: ServerFiles) -> list[str]:
        """Starts the standalone server with its three ports."""
        controller, segment_store, zookeeper = place.ports
        settings = {
            "singlenode.controller.rpc.port": str(controller),
            "singlenode.segmentStore.port": str(segment_store),
            "singlenode.zk.port": str(zookeeper),
            "singlenode.controller.rest.enable": "false",
            "singlenode.admin.gateway.enable": "false",
            "singlenode.metrics.enable": "false",
            "pravegaservice.service.listener.host.nameOrIp": "127.0.0.1",
            "pravegaservice.service.published.host.nameOrIp": "127.0.0.1",
            # Holds what is not in long-term storage yet. When it is full, the server gives up its containers, and takes
            # them back too late: a large transaction on a busy machine is enough to fill the usual 128 MB.
            "pravegaservice.cache.size.max": str(_CACHE_MB << 20),
            # Of the usual hundred each looks for work ten times a second, for as long as the server runs.
            "controller.watermarking.bucket.count": "1",
            **(_FOR_TESTS if self.quick_start else {}),
            **self.properties,
        }
        configuration = place.folder / "standalone.properties"
        configuration.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")
        logging = place.folder / "logback.xml"
        logging.write_text(_LOG_CONFIGURATION.format(level="WARN"), "utf-8")
        temporary = place.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        options = [
            "-Xms256m",
            f"-Xmx{self.heap_mb}m",
            f"-XX:MaxDirectMemorySize={_CACHE_MB + 384}m",
            "-XX:+UseSerialGC",
            *(["-XX:TieredStopAtLevel=1"] if self.quick_start else []),
            "-Djava.net.preferIPv4Stack=true",
            f"-Djava.io.tmpdir={temporary}",
            f"-Dsinglenode.configurationFile={configuration}",
            f"-Dconf.file={configuration}",  # where the controller looks for its own settings
            f"-Dlogback.configurationFile={logging}",
        ]
        java = place.java("io.pravega.local.LocalPravegaEmulator", options=options)
        return ["env", f"LD_PRELOAD={loopback_library(place.folder)}", *java]

    def check(self, address: str, timeout_s: float) -> None:
        """The controller lists its scopes."""
        controller = Controller(ControllerSettings(address, timeout_s=timeout_s, tries=1))
        try:
            controller.list_scopes()
        finally:
            controller.close()

    def warm_up(self, address: str) -> None:
        """A stream can be made and its segments are served, so that the first query does not wait for containers."""
        controller = Controller(ControllerSettings(address, timeout_s=10, tries=1))
        try:
            controller.create_scope("_penstock")
            controller.create_stream("_penstock", "warm-up", segments=1)
            if not controller.current_segments("_penstock", "warm-up"):
                raise RetriableError("the stream of the warm-up has no segments yet")
        finally:
            controller.close()

    def address(self, port: int) -> str:
        """Returns the URL of the controller at ``port``."""
        return f"tcp://127.0.0.1:{port}"

    def container(self, port: int) -> ContainerImage | None:
        """None: the image publishes the segment store's address too, which would have to be the same inside and out."""
        return None

    def usage(self, address: str) -> str:
        """Returns the option of the source and the sink."""
        return f'.option("controller", "{address}")'


def pravega_server(
    folder: Path | str,
    properties: Mapping[str, str] | None = None,
    *,
    heap_mb: int = 768,
    version: str = NEWEST,
) -> LocalServer:
    """Returns a server as a context manager; see :class:`penstock.dev.LocalServer`. A restart begins empty."""
    return LocalServer(PravegaDevServer(properties, heap_mb=heap_mb, version=version), folder)
