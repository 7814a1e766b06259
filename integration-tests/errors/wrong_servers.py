"""Ports at which no server listens that a connector could talk to, each in a way of its own."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["wrong_servers"]

_HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_SSH = b"SSH-2.0-OpenSSH_9.6\r\n"


def _serve(handle: Callable[[socket.socket], None], stack: contextlib.ExitStack) -> str:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    stack.callback(listener.close)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_handle, args=(connection,), daemon=True).start()

    def _handle(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(60)
            handle(connection)

    threading.Thread(target=accept, daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}"


def _http(connection: socket.socket) -> None:
    if connection.recv(4096):
        connection.sendall(_HTTP)


def _ssh(connection: socket.socket) -> None:
    connection.sendall(_SSH)
    connection.recv(4096)


def _silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def _closing(connection: socket.socket) -> None:
    connection.recv(1)


def _tls(context: ssl.SSLContext) -> Callable[[socket.socket], None]:
    def handle(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            _silent(secure)

    return handle


@contextlib.contextmanager
def wrong_servers(folder: Path) -> Iterator[dict[str, str]]:
    """Yields ``host:port`` by kind: ``refused``, ``http``, ``ssh``, ``silent``, ``closing``, ``tls``; and ``ca``."""
    key, certificate = folder / "key.pem", folder / "ca.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with contextlib.ExitStack() as stack:
        with socket.create_server(("127.0.0.1", 0)) as free:
            refused = f"127.0.0.1:{free.getsockname()[1]}"
        kinds = {"http": _http, "ssh": _ssh, "silent": _silent, "closing": _closing, "tls": _tls(context)}
        addresses = {name: _serve(handle, stack) for name, handle in kinds.items()}
        yield {**addresses, "refused": refused, "ca": str(certificate)}
