"""What is said of addresses where no node answers."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cassandra import AuthenticationFailed
from cassandra.cluster import NoHostAvailable

from penstock.dev import free_ports
from penstock.errors import BadConfigurationError, RetriableError
from penstock_cassandra.client._settings import ConnectionSettings
from penstock_cassandra.client._wrong_port import wrong_port

HERE = "127.0.0.1"


@pytest.mark.parametrize("errors", [{}, [], {HERE: OSError("no")}], ids=["none", "a list", "one"])
def test_nothing_listens(errors):
    """The driver gives a list where it has tried no node at all."""
    port = free_ports(1)[0]
    found = wrong_port(ConnectionSettings((HERE,), port), NoHostAvailable("no", errors), "connecting")
    assert isinstance(found, RetriableError) and f"{HERE}:{port}: connection refused" in str(found)


@pytest.mark.parametrize(
    "error",
    [AuthenticationFailed("no"), NoHostAvailable("no", {HERE: AuthenticationFailed("no")}), RetriableError("no")],
)
def test_what_a_server_has_answered_is_no_wrong_port(error):
    assert wrong_port(ConnectionSettings((HERE,), free_ports(1)[0]), error, "connecting") is None


def test_another_kind_of_server():
    server = ThreadingHTTPServer((HERE, 0), BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        settings = ConnectionSettings((HERE,), server.server_port)
        found = wrong_port(settings, NoHostAvailable("no", []), "connecting")
    finally:
        server.shutdown()
        server.server_close()
    assert isinstance(found, BadConfigurationError) and "is an HTTP server, not Cassandra" in str(found)
