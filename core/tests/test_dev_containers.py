"""The way by a container, with a stand-in for testcontainers whose "containers" are processes of this machine.

What a real engine does with what it is asked for is not tested here.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys

import pytest

from penstock.dev import ContainerImage, DevServer, down, open_server, status, up
from penstock.errors import BadConfigurationError, FatalError, RetriableError

CLIENT = '''
import json, pathlib, subprocess, sys
FOLDER = pathlib.Path({folder!r})
PROCESSES = {{}}

class Container:
    def __init__(self, id):
        self.id = id
        self.status = "running" if (FOLDER / id).exists() else "exited"
    def remove(self, force, v):
        process = PROCESSES.pop(self.id)
        process.kill()
        process.wait()
        (FOLDER / self.id).unlink()
        (FOLDER / "removed").write_text(self.id)

class DockerClient:
    """Of the real one: what is called here."""
    def __init__(self, timeout=60):
        if (FOLDER / "down").exists():
            raise OSError("connection refused")
        self.client = self.containers = self
    def ping(self):
        return True
    def host(self):
        return (FOLDER / "host").read_text() if (FOLDER / "host").exists() else "localhost"
    def run(self, image, **settings):
        (FOLDER / "asked").write_text(json.dumps([image, settings]))
        ((address, port),) = settings["ports"].values()
        process = subprocess.Popen([sys.executable, "-m", "http.server", "--bind", address, str(port)])
        PROCESSES[f"c-{{process.pid}}"] = process
        (FOLDER / f"c-{{process.pid}}").touch()
        return Container(f"c-{{process.pid}}")
    def get(self, id):
        from docker.errors import NotFound
        if not (FOLDER / id).exists():
            raise NotFound(id)
        return Container(id)
'''


class WebServer(DevServer):
    name = "web"
    title = "Web 1.0"
    environment_variable = "PENSTOCK_WEB_ADDRESS"
    start_seconds = 10

    def command(self, place):
        return [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(place.ports[0])]

    def check(self, address, timeout_s):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout_s).close()
        except OSError as error:
            raise RetriableError(str(error)) from error

    def container(self, port):
        return ContainerImage("example/web:1.0", 80, {"TONE": "warm"})


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """The folder in which the stand-in keeps what it was asked."""
    monkeypatch.setenv("PENSTOCK_DEV_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PENSTOCK_WEB_ADDRESS", raising=False)
    folder, path = tmp_path / "engine", tmp_path / "path"
    for package in (path / "testcontainers" / "core", path / "docker", folder):
        package.mkdir(parents=True)
    (path / "testcontainers" / "__init__.py").touch()
    (path / "testcontainers" / "core" / "__init__.py").touch()
    (path / "testcontainers" / "core" / "docker_client.py").write_text(CLIENT.format(folder=str(folder)))
    (path / "docker" / "__init__.py").touch()
    (path / "docker" / "errors.py").write_text(
        "class DockerException(Exception): pass\nclass NotFound(DockerException): pass\n"
    )
    forgotten = [name for name in sys.modules if name.partition(".")[0] in ("docker", "testcontainers")]
    for name in [*forgotten, "docker", "docker.errors", "testcontainers", "testcontainers.core.docker_client"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(path)
    importlib.invalidate_caches()
    yield folder
    (folder / "down").unlink(missing_ok=True)
    down("web")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("docker", "testcontainers")]:
        del sys.modules[name]


def test_an_engine_that_answers_comes_before_a_process(engine):
    found = up(WebServer())
    assert found.way == "container" and found.started
    image, settings = json.loads((engine / "asked").read_text())
    assert image == "example/web:1.0" and settings["environment"] == {"TONE": "warm"}
    assert settings["ports"] == {"80/tcp": ["127.0.0.1", found.record.port]}
    assert not up(WebServer()).started
    (one,) = status()
    assert one.running and one.memory_bytes is None
    with pytest.raises(BadConfigurationError, match="leave out --keep-data"):
        down("web", keep_data=True)
    assert down("web").running
    assert (engine / "removed").read_text() == found.record.container and status() == []


def test_a_container_of_a_test_run_is_removed(engine, tmp_path):
    with open_server(WebServer(), tmp_path / "data", "container") as address:
        WebServer().check(address, 1)
    assert (engine / "removed").exists()
    with pytest.raises(RetriableError):
        WebServer().check(address, 1)


def test_a_container_that_is_gone_is_noticed(engine):
    container = up(WebServer()).record.container
    os.kill(int(container.partition("-")[2]), signal.SIGKILL)
    (engine / container).unlink()
    assert not status()[0].running
    assert up(WebServer()).ended.container == container


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("down", "", "no container engine answers .connection refused"),
        pytest.param(
            *("host", "10.0.0.7", "is on 10.0.0.7"),
            marks=pytest.mark.exhaustive("one more server; the other case stays"),
        ),
    ],
)
def test_without_an_engine_here_it_is_a_process(engine, file, text, why):
    (engine / file).write_text(text)
    with pytest.raises(BadConfigurationError, match=f"Web 1.0 can't run as a container: .*{why}"):
        up(WebServer(), way="container")
    assert up(WebServer()).way == "process"


def test_an_engine_that_has_gone_away_is_an_error_in_words(engine):
    up(WebServer())
    (engine / "down").touch()
    with pytest.raises(FatalError, match="can't be asked about container"):
        down("web")
