"""Development servers that outlive a command and private ones, with a small real server process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import penstock.cli._dev as dev_command
from penstock.cli import app
from penstock.dev import ContainerImage, DevServer, LocalServer, down, free_ports, open_server, status, up
from penstock.dev._process import ProcessIdentity, identify
from penstock.dev._state import StateFolder
from penstock.errors import BadConfigurationError, FatalError, RetriableError

PROGRAM = """
import signal, socket, sys
port, stubborn, mute = int(sys.argv[1]), sys.argv[2] == "True", sys.argv[3] == "True"
print("a start", flush=True)
if port == 0:
    sys.exit("port 0 is no port")
if stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("starts", "a") as file:
    file.write("x")
with socket.create_server(("127.0.0.1", port)) as server:
    while True:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"" if mute else b"hello")
"""


class HelloServer(DevServer):
    """Says hello to whoever connects. ``broken`` ends at once, ``stubborn`` survives SIGTERM, ``mute`` says nothing."""

    name = "hello"
    title = "Hello 1.0"
    environment_variable = "PENSTOCK_HELLO_ADDRESS"
    start_seconds = 60
    stop_seconds = 0.3

    def __init__(self, *, broken=False, stubborn=False, mute=False):
        self.broken, self.stubborn, self.mute = broken, stubborn, mute

    def command(self, place):
        port = 0 if self.broken else place.ports[0]
        return [sys.executable, "-c", PROGRAM, str(port), str(self.stubborn), str(self.mute)]

    def check(self, address, timeout_s):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout_s) as connection:
                said = connection.recv(5)
        except OSError as error:
            raise RetriableError(f"nothing answers at {address} ({error})") from error
        if said != b"hello":
            raise RetriableError(f"{address} says {said!r}")

    def container(self, port):
        return ContainerImage("example/hello:1.0", 7, {"TONE": "warm"})

    def usage(self, address):
        return f'.option("hello", "{address}")'


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home of the test's own, no address in the environment; whatever a test leaves running is ended."""
    monkeypatch.setenv("PENSTOCK_DEV_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PENSTOCK_HELLO_ADDRESS", raising=False)
    yield tmp_path / "home"
    down("hello")


def starts(home):
    return len((home / "hello" / "penstock-dev-data" / "starts").read_text())


def test_up_status_down(home):
    found = up(HelloServer(), way="process")
    assert found.started and found.way == "process"
    HelloServer().check(found.address, 1)
    (one,) = status()
    assert one.running and one.record == found.record and one.memory_bytes > 1_000_000
    ended = down("hello")
    assert ended.running and identify(found.record.process.pid) is None
    assert status() == [] and down("hello") is None
    assert not (home / "hello" / "penstock-dev-data").exists()


def test_up_finds_the_running_one(home):
    first = up(HelloServer(), way="process")
    second = up(HelloServer())
    assert not second.started and second.record == first.record and starts(home) == 1


def test_two_commands_at_once_start_one_server(home):
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: up(HelloServer(), way="process"), range(2)))
    assert sorted(one.started for one in found) == [False, True]
    assert found[0].record == found[1].record and starts(home) == 1


def test_what_runs_is_not_taken_for_something_else():
    port = up(HelloServer(), way="process").record.port
    for other in ({"way": "container"}, {"port": port + 1}):
        with pytest.raises(BadConfigurationError, match=f"as a process on port {port}: end it first"):
            up(HelloServer(), **other)
    assert not up(HelloServer(), way="process", port=port).started


def test_killed_behind_our_back_is_noticed_and_taken_up_again(home):
    first = up(HelloServer(), way="process")
    os.kill(first.record.process.pid, signal.SIGKILL)
    wait_for(lambda: not status()[0].running)
    second = up(HelloServer(), way="process")
    assert second.started and second.ended == first.record
    assert second.address == first.address and starts(home) == 2


@pytest.fixture
def signals(monkeypatch):
    """What was sent to which process, in order."""
    sent = {}

    def kill(pid, number):
        sent.setdefault(pid, []).append(number)
        os.kill(pid, number)

    monkeypatch.setattr("penstock.dev._process.os", SimpleNamespace(kill=kill, environ=os.environ))
    return sent


def test_a_process_that_got_the_same_id_is_left_alone(signals):
    up(HelloServer(), way="process")
    state = StateFolder("hello")
    record = state.load()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as innocent:
        try:
            earlier = ProcessIdentity(innocent.pid, record.process.began)
            assert identify(innocent.pid).began != earlier.began
            state.store(replace(record, process=earlier))
            assert not status()[0].running and status()[0].memory_bytes is None
            assert not down("hello").running
            assert innocent.pid not in signals and innocent.poll() is None
        finally:
            innocent.kill()
            os.kill(record.process.pid, signal.SIGKILL)


def test_one_that_does_not_listen_to_sigterm_is_killed(signals):
    pid = up(HelloServer(stubborn=True), way="process").record.process.pid
    assert down("hello").running
    assert identify(pid) is None and signals[pid] == [signal.SIGTERM, signal.SIGKILL]


def test_data_can_be_kept(home):
    up(HelloServer(), way="process")
    down("hello", keep_data=True)
    assert status() == [] and starts(home) == 1
    assert up(HelloServer(), way="process").ended is None and starts(home) == 2


def test_without_java_the_error_names_the_other_way(monkeypatch):
    def needs_java(self, place):
        return place.java("Hello")

    monkeypatch.setattr(HelloServer, "command", needs_java)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(BadConfigurationError, match=r"install Java 17(?s:.*)and set PENSTOCK_HELLO_ADDRESS"):
        up(HelloServer(), way="process")


def test_one_that_ends_at_once_is_an_error_with_its_last_words():
    with pytest.raises(FatalError, match=r"Hello 1\.0 ended while it was starting.*: a start \| port 0 is no port"):
        up(HelloServer(broken=True), way="process")
    assert status() == []


def test_one_that_never_answers_is_ended(monkeypatch, tmp_path):
    check, clock = HelloServer.check, SimpleNamespace(now=0.0, monotonic=lambda: clock.now, sleep=time.sleep)

    def check_and_let_time_pass(server, address, timeout_s):
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout_s).close()
            clock.now += server.start_seconds + 1
        check(server, address, timeout_s)

    monkeypatch.setattr(HelloServer, "check", check_and_let_time_pass)
    monkeypatch.setattr("penstock.dev._local.time", clock)
    local = LocalServer(HelloServer(mute=True), tmp_path)
    with pytest.raises(FatalError, match=r"does not answer at 127\.0\.0\.1:\d+ in 60 s: .* says b''"):
        local.start()
    assert not local.running and identify(local.pid) is None


def test_an_interrupted_start_leaves_nothing_behind(monkeypatch):
    pids = []

    def interrupted(self, address, timeout_s):
        pids.append(StateFolder("hello").load().process.pid)
        raise KeyboardInterrupt

    def interrupted_earlier(text):
        interrupted(None, "", 0)

    with pytest.raises(KeyboardInterrupt):
        up(HelloServer(), way="process", progress=interrupted_earlier)
    monkeypatch.setattr(HelloServer, "check", interrupted)
    with pytest.raises(KeyboardInterrupt):
        up(HelloServer(), way="process")
    assert status() == [] and len(pids) == 2 and not any(map(identify, pids))


def test_an_interrupted_private_start_leaves_nothing_behind(monkeypatch, tmp_path):
    def interrupted(self, address, timeout_s):
        raise KeyboardInterrupt

    monkeypatch.setattr(HelloServer, "check", interrupted)
    server = LocalServer(HelloServer(), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        server.start()
    assert identify(server.pid) is None


def test_an_address_is_only_checked(tmp_path, monkeypatch):
    with LocalServer(HelloServer(), tmp_path / "own") as own:
        monkeypatch.setenv("PENSTOCK_HELLO_ADDRESS", own.address)
        found = up(HelloServer())
        assert (found.address, found.way, found.started, found.record) == (own.address, "address", False, None)
        with open_server(HelloServer(), tmp_path / "unused") as address:
            assert address == own.address
        assert own.running and status() == []
        assert up(HelloServer(), way="process").started
    assert not own.running
    with pytest.raises(BadConfigurationError, match="PENSTOCK_HELLO_ADDRESS is set, but nothing answers at"):
        up(HelloServer())
    with pytest.raises(BadConfigurationError, match="nothing answers at"), open_server(HelloServer(), tmp_path):
        pass
    monkeypatch.delenv("PENSTOCK_HELLO_ADDRESS")
    with pytest.raises(BadConfigurationError, match="PENSTOCK_HELLO_ADDRESS is not set"):
        up(HelloServer(), way="address")


def test_a_private_server_goes_on_with_its_data_and_port(tmp_path):
    with LocalServer(HelloServer(), tmp_path) as server:
        address, first = server.address, server.pid
        server.kill()
        assert not server.running
        with pytest.raises(RetriableError):
            server.server.check(address, 1)
        server.start()
        assert server.address == address and server.pid != first
        server.stop()
        server.start()
        last = server.pid
    assert identify(last) is None and (tmp_path / "starts").read_text() == "xxx"


@pytest.mark.parametrize("name", ["..", "../elsewhere", "a/b", "", "/tmp"])
def test_a_name_never_leads_out_of_the_home(name):
    with pytest.raises(BadConfigurationError, match="is not the name of a connector"):
        down(name)


def test_servers_that_start_at_the_same_time_get_different_ports(tmp_path):
    """Also with a range in which there are hardly more."""
    narrow = "import penstock.dev._ports as ports; ports._RANGE = range(14_000, 14_100); print(*ports.free_ports(20))"
    own = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", narrow]
    asking = [subprocess.Popen(command, env=own, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    ports = [port for process in asking for port in process.communicate()[0].split()]
    assert len(set(ports)) == len(ports) == 80


def test_a_port_whose_last_connection_waits_for_its_end_is_not_chosen(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            listener.accept()[0].close()
            assert client.recv(1) == b""
    monkeypatch.setattr("penstock.dev._ports._candidates", lambda: iter([port, port + 1, port + 2, port + 3]))
    assert free_ports(1) != (port,)


def test_ports_are_free_and_out_of_the_way_of_outgoing_connections():
    ports = free_ports(20)
    assert len(set(ports)) == 20 and max(ports) < 32_768
    taken = pytest.raises(BadConfigurationError, match=f"port {ports[0]} .* is in use")
    with socket.create_server(("127.0.0.1", ports[0])), taken:
        free_ports(2, ports[0])
    assert free_ports(2, ports[0])[0] == ports[0]


def test_the_command(monkeypatch):
    class Installed:
        name = "hello"

        def load(self):
            return self

        def dev_server(self):
            return HelloServer()

    monkeypatch.setattr(dev_command, "find_connector", lambda name: Installed())
    started = json.loads(run("up", "hello", "--with", "process", "--json"))
    assert started["started"] and started["variable"] == "PENSTOCK_HELLO_ADDRESS"
    address = started["address"]
    again = run("up", "hello")
    assert f"export PENSTOCK_HELLO_ADDRESS={address}\n" in again and f'.option("hello", "{address}")' in again
    assert f"process {started['pid']}, running since" in again and "penstock dev down hello" in again
    assert address in run("status") and "MiB" in run("status")
    os.kill(started["pid"], signal.SIGKILL)
    wait_for(lambda: not status()[0].running)
    assert "'penstock dev up hello' starts it again on its data" in run("status", code=1)
    assert json.loads(run("status", "--json", code=1))[0]["running"] is False
    assert "had ended without us" in run("up", "hello", "--with", "process")
    assert "ended; its data is deleted" in run("down", "hello")
    assert "nothing was running" in run("down", "hello")
    assert json.loads(run("status", "--json")) == []


def test_the_command_says_what_it_takes():
    assert isinstance(CliRunner().invoke(app, ["dev", "up", "nothing"]).exception, BadConfigurationError)
    assert "no development server" in str(CliRunner().invoke(app, ["dev", "up", "filesystem"]).exception)


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["dev", *arguments], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.stdout


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
