"""The proxy with the faults of a bad network, before a server that sends back what it gets."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time

import pytest

from suite.bad_network import BadNetwork, renamed_addresses
from suite.frames import CassandraFrames, HttpFrames, KafkaFrames, PravegaFrames

SECONDS = 10


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(1 << 16):
            self.server.got.append(data)
            self.request.sendall(data)
        self.server.ended.set()


@pytest.fixture
def echo():
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.got, server.ended = [], threading.Event()
        server.address_text = f"127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def network(echo):
    with BadNetwork(echo.address_text) as proxy:
        yield proxy


@pytest.fixture
def kafka_network(echo):
    with BadNetwork(echo.address_text, KafkaFrames) as proxy:
        yield proxy


def connect(network, timeout=SECONDS):
    return socket.create_connection(("127.0.0.1", network.port), timeout=timeout)


def told(client, data):
    """Sends it, and returns what comes back: as much, or less if the connection ends."""
    client.sendall(data)
    return received(client, len(data))


def received(client, size):
    found = b""
    while len(found) < size and (some := client.recv(size - len(found))):
        found += some
    return found


def is_silent(client):
    client.settimeout(0.02)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(SECONDS)
    return False


def request(body, key=26):
    """A request as Kafka's, and, as it comes back, an answer: its number is where an answer has it, too."""
    return struct.pack(">ihhib", 9, key, 0, key << 16, body)


def test_a_good_network_passes_everything_on_and_the_end(network, echo):
    with connect(network) as client:
        data = bytes(range(256)) * 1000
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        assert received(client, len(data)) == data
        sender.join()
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert echo.ended.wait(SECONDS)
    assert network.counts["to server"] == network.counts["to client"] == len(data)


def test_latency_is_switched_while_a_connection_is_open(network):
    with connect(network) as client:
        assert told(client, b"quick") == b"quick"
        network.latency_s = 0.03
        begun = time.monotonic()
        assert told(client, b"slow") == b"slow"
        assert time.monotonic() - begun >= 0.06


def test_a_limit_of_bytes_in_a_second(network):
    with connect(network) as client:
        network.bytes_per_s = 100_000
        begun = time.monotonic()
        assert told(client, b"x" * 5_000) == b"x" * 5_000
        assert time.monotonic() - begun >= 0.05


@pytest.mark.parametrize("seed", [1, 2])
def test_a_share_of_pieces_resets_the_connection(echo, seed):
    """By the seed: the same pieces each time."""
    fates = []
    for _ in range(2):
        with BadNetwork(echo.address_text, seed=seed) as network:
            network.resets, fate = 0.3, []
            for _ in range(10):
                with connect(network) as client:
                    try:
                        fate.append(told(client, b"data") == b"data")
                    except ConnectionError:
                        fate.append(False)
            fates.append(fate)
            assert network.counts["resets"] == fate.count(False)
    assert fates[0] == fates[1] and {True, False} == set(fates[0])


def test_what_a_held_direction_keeps_arrives_later(network, echo):
    with connect(network) as client:
        assert told(client, b"1") == b"1"
        network.hold("to client")
        client.sendall(b"2")
        assert is_silent(client) and echo.got == [b"1", b"2"]
        network.mend()
        assert received(client, 1) == b"2"
        network.hold("to server")
        client.sendall(b"3")
        assert is_silent(client) and echo.got == [b"1", b"2"]
        network.mend()
        assert received(client, 1) == b"3"


def test_a_half_open_connection_is_silent_for_ever_and_a_new_one_works(network, echo):
    with connect(network) as client:
        assert told(client, b"1") == b"1"
        network.half_open()
        client.sendall(b"2")
        network.mend()
        assert is_silent(client) and echo.got == [b"1"]
        client.shutdown(socket.SHUT_WR)
        with connect(network) as other:
            assert told(other, b"3") == b"3"
        assert not echo.ended.is_set() or echo.got == [b"1", b"3"]


def test_open_connections_are_reset(network):
    with connect(network) as client, connect(network) as other:
        told(client, b"1"), told(other, b"1")
        network.reset()
        for one in (client, other):
            with pytest.raises(ConnectionResetError):
                one.recv(1)


def test_the_answer_of_the_nth_request_of_a_kind_is_lost(kafka_network, echo):
    loss = kafka_network.lose("EndTxn", nth=2)
    with connect(kafka_network) as client:
        for one in (request(1), request(2, key=3)):
            assert told(client, one)
        with pytest.raises(ConnectionResetError):
            told(client, request(3))
    assert loss.happened.is_set() and (loss.met, loss.lost) == (2, 1)
    assert b"".join(echo.got) == request(1) + request(2, key=3) + request(3), "the server has it"
    with connect(kafka_network) as client:
        assert told(client, request(4)) == request(4)
    assert kafka_network.counts["EndTxn"] == 3


def test_an_answer_is_cut(kafka_network):
    kafka_network.lose("EndTxn", keep=0.5)
    with connect(kafka_network) as client:
        assert told(client, request(1)) == request(1)[:6]


def test_answers_before_a_lost_one_arrive(kafka_network):
    """Also if all were sent in one piece."""
    kafka_network.lose("EndTxn", keep=0.01)
    with connect(kafka_network) as client:
        assert told(client, request(1, key=3) + request(2, key=26)) == request(1, key=3)


def test_a_proxy_that_knows_no_frames_loses_no_answers(network):
    with pytest.raises(ValueError, match="frames"):
        network.lose("EndTxn")


def test_a_name_that_moves(echo, network):
    with BadNetwork(echo.address_text, host="127.0.0.2", port=network.port) as other:
        with renamed_addresses({"server.invalid": "127.0.0.1"}) as addresses:
            for proxy in (network, other):
                addresses["server.invalid"] = proxy.address.partition(":")[0]
                with socket.create_connection(("server.invalid", network.port), timeout=SECONDS) as client:
                    assert told(client, b"1") == b"1"
                assert proxy.counts["connections"] == 1
        with pytest.raises(socket.gaierror):
            socket.create_connection(("server.invalid", network.port), timeout=SECONDS)


def kinds(frames):
    return [(frame.kind, frame.key) for frame in frames]


def split(take, data, size=3):
    """The frames of data that comes in pieces."""
    found = []
    for at in range(0, len(data), size):
        found += take(data[at : at + size])
    assert b"".join(frame.data for frame in found) == data
    return found


def test_frames_of_kafka():
    frames = KafkaFrames()
    asked = struct.pack(">ihhi", 8, 26, 0, 7) + struct.pack(">ihhi", 8, 0, 0, 8)
    assert kinds(split(frames.requests, asked)) == [("EndTxn", 7), ("Produce", 8)]
    answers = struct.pack(">ii", 4, 8) + struct.pack(">iii", 8, 7, 0)
    assert kinds(split(frames.answers, answers)) == [("Produce", 8), ("EndTxn", 7)]


def test_frames_of_cassandra():
    frames = CassandraFrames()
    text = b"select a"
    query = struct.pack(">BBhBi", 4, 0, 5, 7, 4 + len(text)) + struct.pack(">i", len(text)) + text
    batch = struct.pack(">BBhBi", 4, 0, 6, 13, 2) + b"ab"
    assert kinds(split(frames.requests, query + batch)) == [("QUERY select a", 5), ("BATCH", 6)]
    event = struct.pack(">BBhBi", 0x84, 0, -1, 12, 1) + b"e"
    answer = struct.pack(">BBhBi", 0x84, 0, 6, 8, 1) + b"r"
    assert kinds(split(frames.answers, event + answer)) == [("", -1), ("BATCH", 6)]


def test_frames_of_pravega():
    frames = PravegaFrames()
    asked = struct.pack(">ii", -127, 1) + b"h" + struct.pack(">ii", 4, 2) + b"ab"
    assert [kind for kind, _ in kinds(split(frames.requests, asked))] == ["Hello", "AppendBlockEnd"]
    answered = struct.pack(">ii", -127, 1) + b"h" + struct.pack(">ii", 7, 2) + b"ab" + struct.pack(">ii", 53, 0)
    assert [kind for kind, _ in kinds(split(frames.answers, answered))] == ["Hello", "AppendBlockEnd", "53"]


def test_frames_of_http():
    frames = HttpFrames()
    asked = (
        b"PUT /b/k?partNumber=1 HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nbytes"
        b"POST /b/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        b"HEAD /b/k HTTP/1.1\r\n\r\n"
        b"DELETE /b/k HTTP/1.1\r\n\r\n"
    )
    found = [kind for kind, _ in kinds(split(frames.requests, asked)) if kind]
    assert found == ["PUT /b/k?partNumber=1", "POST /b/k", "HEAD /b/k", "DELETE /b/k"]
    answered = (
        b"HTTP/1.1 100 Continue\r\n\r\n"
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
        b"HTTP/1.1 204 No Content\r\n\r\n"
    )
    assert [kind for kind, _ in kinds(split(frames.answers, answered))] == ["", *found]
