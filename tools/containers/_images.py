"""The images, from Debian's Java and Maven's jars, under the names that the connectors ask for.

They take the variables that the published images take, as far as the connectors set them. Podman keeps them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.dev import DevServer, fetch_jars
from penstock_cassandra.dev import CassandraDevServer
from penstock_cassandra.dev._settings import ALONE, java_options, server_settings, write_logging, write_settings
from penstock_kafka.dev import KafkaDevServer

__all__ = ["build_images"]

_HERE = Path(__file__).parent
_JAVA = "localhost/penstock-java:17"
_DEBIAN = "bookworm"
#: As a server that the connector would pull.
_REGISTRY = {"kafka": "docker.io/apache/kafka", "cassandra": "docker.io/library/cassandra"}
_FILE = f"""\
FROM {_JAVA}
COPY jars /opt/server/jars
COPY [^jC]* /opt/server/
EXPOSE {{port}}
CMD ["/bin/bash", "/opt/server/start"]
"""


def build_images(variables: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Builds what is missing, by the podman that ``variables`` lead to: three minutes the first time.

    Raises subprocess.CalledProcessError with the output on the screen.
    """
    podman = _Podman(variables)
    servers: list[DevServer] = [KafkaDevServer(), CassandraDevServer()]
    wanted = {server.name: server for server in servers if not podman.has(_name(server))}
    if wanted and not podman.has(_JAVA):
        say("building an image of Debian with Java (once, about two minutes)")
        _build_java(podman)
    for server in wanted.values():
        say(f"building an image of {server.title} (once)")
        _build_server(podman, server)


def _name(server: DevServer) -> str:
    image = server.container(1)
    assert image is not None
    return f"{_REGISTRY[server.name]}:{image.image.rpartition(':')[2]}"


class _Podman:
    def __init__(self, variables: Mapping[str, str]) -> None:
        self._environment = {**os.environ, **variables}

    def has(self, image: str) -> bool:
        command = ["podman", "image", "exists", image]
        return subprocess.run(command, env=self._environment, check=False).returncode == 0

    def run(self, *arguments: object, stdin: int | None = None) -> None:
        command = ["podman", *map(str, arguments)]
        subprocess.run(command, env=self._environment, check=True, stdin=stdin, stdout=subprocess.DEVNULL)


def _build_java(podman: _Podman) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-debian-") as name:
        root = Path(name) / "root"
        packages = "--include=openjdk-17-jre-headless"
        command = ["debootstrap", "--variant=minbase", packages, _DEBIAN, str(root)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for unneeded in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
            shutil.rmtree(root / unneeded, ignore_errors=True)
        with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as archive:
            assert archive.stdout is not None
            podman.run("import", "-", _JAVA, stdin=archive.stdout.fileno())
        assert archive.returncode == 0


def _write_cassandra(server: CassandraDevServer, folder: Path) -> None:
    """Cassandra's jars come without configuration."""
    settings = server_settings(Path("/var/lib/cassandra"), 9042, 7000)
    write_settings(folder / "cassandra.yaml", server.release.named(settings | server.settings))
    write_logging(folder / "logback.xml")
    options = [*java_options(server.release), *ALONE, "-XX:TieredStopAtLevel=1"]
    (folder / "server-options").write_text("\n".join(options) + "\n", "utf-8")


def _build_server(podman: _Podman, server: DevServer) -> None:
    image = server.container(1)
    assert image is not None and server.jars is not None
    with tempfile.TemporaryDirectory(prefix="penstock-image-") as name:
        folder = Path(name)
        shutil.copytree(fetch_jars(server.jars), folder / "jars")
        shutil.copy(_HERE / f"{server.name}.sh", folder / "start")
        if isinstance(server, CassandraDevServer):
            _write_cassandra(server, folder)
        (folder / "Containerfile").write_text(_FILE.format(port=image.port), "utf-8")
        podman.run("build", "--quiet", "--tag", _name(server), folder)
