"""The conformance kit on real sockets."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from penstock_basics.sockets import SocketConnector

from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite


class Server:
    """Collects the lines of whoever connects, in a file; sends lines to the last one who did."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - open as long as the server
        self.last: socket.socket | None = None
        self.accepted = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def options(self):
        return {"host": "127.0.0.1", "port": str(self.socket.getsockname()[1])}

    @property
    def lines(self):
        self.file.flush()
        return Path(self.file.name).read_bytes().splitlines()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._collect, args=[connection], daemon=True).start()
            with self.accepted:
                self.last = connection
                self.accepted.notify_all()

    def _collect(self, connection):
        with connection, connection.makefile("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    self.file.write(line)

    def send(self, ids):
        """Waits for a connection: a driver that is restarted has closed its last one."""
        with self.accepted:
            self.accepted.wait_for(lambda: self.last is not None and not has_ended(self.last), 30)
        self.last.sendall("".join(f"{i}\n" for i in ids).encode())


def has_ended(connection):
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.fixture
def new_server():
    servers = []

    def make():
        servers.append(Server())
        return servers[-1]

    yield make
    for server in servers:
        server.socket.close()
        server.file.close()


class TestSink(SinkSuite):
    connector = SocketConnector
    many = 100_000
    most_memory_bytes = 64 << 20

    @pytest.fixture
    def new_target(self, new_server):
        def make():
            server = new_server()
            return SinkTarget(server.options, lambda: [json.loads(line) for line in server.lines])

        return make


class TestSource(SourceSuite):
    connector = SocketConnector
    many = 100_000  # the lines travel in the offsets
    settles_s = 35  # for so long a thread of this test's server may wait for a connection
    schema = pa.schema([("value", pa.string())])

    @pytest.fixture
    def origin(self, new_server):
        server = new_server()

        def put(ids):
            """In the background: whoever reads connects with its first question."""
            threading.Thread(target=server.send, args=[ids], daemon=True).start()

        return SourceOrigin(server.options, put)

    def id_of(self, row):
        return int(row["value"])
