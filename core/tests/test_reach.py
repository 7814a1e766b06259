"""What is seen at a server's address, and how often it is looked at."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

from penstock import reach
from penstock.dev import free_ports
from penstock.reach import look_at, look_at_all

HERE = "127.0.0.1"


@contextmanager
def server(port=0, greeting=b""):
    """Accepts connections, and counts them."""
    accepted = []
    with socket.create_server((HERE, port)) as listening:

        def serve():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                accepted.append(connection)
                with connection:
                    connection.sendall(greeting)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1], accepted
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_a_server_that_comes_up_is_seen_at_once():
    """What was seen before it was there does not hide what is wrong with it now."""
    (port,) = free_ports(1)
    address = f"{HERE}:{port}"
    refused = look_at(address, tls=False, protocol="Cassandra")
    assert refused is not None and refused.kind == "refused" and refused.may_pass
    with server(port, b"SSH-2.0-x\r\n"):
        seen = look_at(address, tls=False, protocol="Cassandra")
    assert seen is not None and seen.kind == "other" and not seen.may_pass
    assert seen.text == f"{address} answers 'SSH-2.0-x' and is not Cassandra"


def test_a_server_that_speaks_first_is_known_by_its_greeting():
    with server(greeting=b"hello\r\n") as (port, _):
        address = f"{HERE}:{port}"
        assert look_at_all([address], tls=False, protocol="Hello", greeting=lambda said: said[:5] == b"hello") is None
        seen = look_at(address, tls=False, protocol="Bye", greeting=lambda said: said[:3] == b"bye")
    assert seen is not None and seen.kind == "other"


def test_a_server_that_is_there_is_looked_at_once_in_a_while(monkeypatch):
    with server() as (port, accepted):
        address = f"{HERE}:{port}"
        assert look_at(address, tls=False, protocol="HTTP") is None
        looks = len(accepted)
        assert looks > 0 and look_at(address, tls=False, protocol="HTTP") is None and len(accepted) == looks
        monkeypatch.setattr(reach, "_KEPT_S", 0.0)
        look_at(address, tls=False, protocol="HTTP")
        assert len(accepted) > looks


def test_one_of_several_addresses_is_enough():
    with server() as (port, _):
        there, away = f"{HERE}:{port}", f"{HERE}:{free_ports(1)[0]}"
        assert look_at_all([away, there], tls=False, protocol="Kafka") is None
        seen = look_at_all([away, away], tls=False, protocol="Kafka")
    assert seen is not None and seen.kind == "refused" and seen.text.count("refused") == 1
    assert look_at_all([], tls=False, protocol="Kafka") is None
