"""An archive of the classes that a Kafka broker loads: it starts, and starts again, in two thirds of the time.

See ``spark_classes``, which has the same for Spark. Other servers' JVMs leave the archive alone, as it names its jars.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from penstock.dev import LocalServer, ServerFiles
from penstock_kafka.dev import KafkaDevServer, KafkaToolbox
from spark_classes import QUIET, archive_path

__all__ = ["java_options", "make"]


def _archive() -> Path:
    jars = KafkaDevServer().jars
    assert jars is not None
    return archive_path("kafka", str(jars.folder))


def java_options() -> str:
    """For ``PENSTOCK_DEV_JAVA_OPTIONS``. A JVM that finds no archive does without it, silently."""
    return shlex.join([f"-XX:SharedArchiveFile={_archive()}", *QUIET])


class _NotedServer(KafkaDevServer):
    """Writes the archive as it ends."""

    def __init__(self, archive: Path) -> None:
        super().__init__(quick_start=True)
        self._archive = archive

    def command(self, place: ServerFiles) -> list[str]:
        java, *rest = super().command(place)
        others = [word for word in rest if not word.startswith("-XX:SharedArchiveFile")]
        return [java, f"-XX:ArchiveClassesAtExit={self._archive}", *others]


def make(say: Callable[[str], None]) -> None:
    """Makes it, unless it is there: with a broker that does what tests have brokers do."""
    archive = _archive()
    if archive.exists():
        return
    say("noting which classes Kafka loads (once, seconds)")
    with tempfile.TemporaryDirectory(prefix="penstock-classes-") as folder:
        made = Path(folder) / archive.name
        server = LocalServer(_NotedServer(made), Path(folder) / "kafka")
        with server:
            toolbox = KafkaToolbox(server.address)
            topic = toolbox.create_topic(partitions=2)
            toolbox.produce_transaction(topic, [b"kept"])
            toolbox.produce_transaction(topic, [b"dropped"], commit=False)
            toolbox.read(topic)
            server.stop()
        if made.exists():
            archive.parent.mkdir(exist_ok=True)
            shutil.move(made, archive)
