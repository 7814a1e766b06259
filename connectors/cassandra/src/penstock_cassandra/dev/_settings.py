"""The configuration of a small server of one node: its settings, its log's, and what Java has to open for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock_cassandra.dev._releases import Release

__all__ = [
    "ALONE",
    "JOINING",
    "KILLED",
    "java_options",
    "nodetool_options",
    "server_settings",
    "write_logging",
    "write_settings",
]

_EXPORTED = (
    "java.base/jdk.internal.misc java.base/java.lang.ref java.base/sun.nio.ch "
    "java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry java.rmi/sun.rmi.server "
    "java.rmi/sun.rmi.transport.tcp java.sql/java.sql jdk.unsupported/sun.misc"
)
_OPENED = (
    "java.base/java.lang.module java.base/java.lang java.base/java.lang.reflect java.base/java.net java.base/java.util "
    "java.base/java.util.concurrent java.base/java.util.concurrent.atomic java.base/java.io java.base/java.nio "
    "java.base/sun.nio.ch java.base/jdk.internal.loader java.base/jdk.internal.ref java.base/jdk.internal.reflect "
    "java.base/jdk.internal.math java.base/jdk.internal.module java.base/jdk.internal.util.jar "
    "java.rmi/sun.rmi.transport.tcp jdk.management/com.sun.management.internal"
)

_MODULES = (
    *(option for module in _EXPORTED.split() for option in ("--add-exports", f"{module}=ALL-UNNAMED")),
    *(option for module in _OPENED.split() for option in ("--add-opens", f"{module}=ALL-UNNAMED")),
)
_NODETOOL_MODULES = (
    *("--add-exports", "java.base/sun.nio.ch=ALL-UNNAMED", "--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED"),
    *("--add-opens", "java.base/java.lang=ALL-UNNAMED"),
)
#: Estimates of sizes are renewed often.
_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djdk.attach.allowAttachSelf=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dcassandra-foreground=yes",
    "-Dcassandra.size_recorder_interval=5",
    "-Dcassandra.superuser_setup_delay_ms=0",
)
#: A lone node waits for no other.
ALONE = ("-Dcassandra.ring_delay_ms=100", "-Dcassandra.skip_wait_for_gossip_to_settle=0")
#: One that joins others on the same machine waits until the first of them is there, and for a moment after that.
JOINING = (
    "-Dcassandra.ring_delay_ms=90000",
    "-Dcassandra.gossip_settle_min_wait_ms=500",
    "-Dcassandra.skip_wait_for_gossip_to_settle=1",
)


#: Settings with which a node that is killed has what it acknowledged (``None`` leaves one out). With the default,
#: ``periodic``, it has not: it finds in its commit log what lies before a mark, and it writes those ten times a second.
KILLED: Mapping[str, Any] = {
    "commitlog_sync": "group",
    "commitlog_sync_group_window": "5ms",
    "commitlog_sync_period": None,
    # Each waits for the disk with what it has written.
    "concurrent_writes": 256,
}


def java_options(release: Release) -> tuple[str, ...]:
    """Returns the options of the node's JVM."""
    return (*(_MODULES if release.java != (8, 8) else ()), *_OPTIONS)


def nodetool_options(release: Release) -> tuple[str, ...]:
    """Returns the options of the JVM of Cassandra's tool for operators."""
    return (*(_NODETOOL_MODULES if release.java != (8, 8) else ()), "-Xmx128m", "-XX:TieredStopAtLevel=1")


def server_settings(folder: Path, port: int, storage_port: int, seed: str | None = None) -> dict[str, Any]:
    """Returns a node on the loopback address, with small caches."""
    return {
        "cluster_name": "penstock",
        "num_tokens": 4,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        # Cassandra's own default; see KILLED.
        "commitlog_sync": "periodic",
        "commitlog_sync_period": "10000ms",
        "data_file_directories": [str(folder / "data")],
        "commitlog_directory": str(folder / "commitlog"),
        "hints_directory": str(folder / "hints"),
        "saved_caches_directory": str(folder / "saved_caches"),
        "cdc_raw_directory": str(folder / "cdc_raw"),
        "listen_address": "127.0.0.1",
        "rpc_address": "127.0.0.1",
        "storage_port": storage_port,
        # Cassandra 3 listens for clients only if it is asked to.
        "start_native_transport": True,
        "native_transport_port": port,
        "endpoint_snitch": "SimpleSnitch",
        "authenticator": "AllowAllAuthenticator",
        "authorizer": "AllowAllAuthorizer",
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": seed or f"127.0.0.1:{storage_port}"}],
            }
        ],
        "concurrent_reads": 8,
        "concurrent_writes": 8,
        "concurrent_counter_writes": 4,
        "memtable_heap_space": "128MiB",
        "memtable_offheap_space": "128MiB",
        "key_cache_size": "8MiB",
        "file_cache_size": "64MiB",
        "commitlog_segment_size": "16MiB",
        "commitlog_total_space": "128MiB",
        "disk_failure_policy": "stop",
        "auto_snapshot": False,
        "materialized_views_enabled": False,
    }


def write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Writes settings as YAML, of which JSON is a part, without those that are ``None``."""
    given = {name: value for name, value in settings.items() if value is not None}
    path.write_text(json.dumps(given, indent=1) + "\n", "utf-8")


def write_logging(path: Path) -> None:
    """Everything goes to the standard output, which is the server's log."""
    path.write_text(
        '<configuration><appender name="OUT" class="ch.qos.logback.core.ConsoleAppender"><encoder>'
        "<pattern>%d{ISO8601} %-5level [%thread] %logger{20} - %msg%n</pattern></encoder></appender>"
        '<root level="WARN"><appender-ref ref="OUT"/></root></configuration>\n',
        "utf-8",
    )
