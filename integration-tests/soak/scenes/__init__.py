"""One job for each connector, with the servers that it needs and what can happen to them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from soak.findings import Findings
from soak.scenes._cassandra import cassandra_scene
from soak.scenes._files import files_scene
from soak.scenes._kafka import kafka_scene
from soak.scenes._pravega import pravega_scene
from soak.scenes._scene import Scene

__all__ = ["SCENES", "Scene"]

#: Each takes a folder, the records a second and where violations go.
SCENES: Mapping[str, Callable[[Path, int, Findings], Scene]] = {
    "kafka": kafka_scene,
    "cassandra": cassandra_scene,
    "pravega": pravega_scene,
    "filesystem": files_scene,
}
