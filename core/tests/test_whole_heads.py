"""An answer that is cut off in its head is a failure, wherever it is cut."""

from __future__ import annotations

import socket
import threading

import pytest
import requests

from penstock.storage._whole_heads import careful_session

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nX-Other: abc\r\nDate: Sat, 28 Nov 2026 12:00:00 GMT\r\n\r\n"
BODY = b"hello world!"


@pytest.fixture
def server():
    """Answers each request with the bytes that are next in the list, and closes the connection."""
    answers = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            while answers:
                connection, _ = listening.accept()
                with connection:
                    while b"\r\n\r\n" not in connection.recv(65536):
                        pass
                    connection.sendall(answers.pop(0))

        yield f"http://127.0.0.1:{listening.getsockname()[1]}/", answers, serve


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_head_that_is_cut_anywhere(server, method):
    url, answers, serve = server
    cuts = range(len(HEAD))
    answers += [HEAD[:cut] for cut in cuts]
    answers.append(HEAD + (BODY if method == "GET" else b""))
    thread = threading.Thread(target=serve)
    thread.start()
    session = careful_session()
    for _ in cuts:
        with pytest.raises(requests.exceptions.ConnectionError):
            session.request(method, url, timeout=10)
    answer = session.request(method, url, timeout=10)
    thread.join()
    assert answer.content == (BODY if method == "GET" else b"") and answer.headers["content-length"] == "12"


def test_a_body_that_is_cut(server):
    url, answers, serve = server
    answers.append(HEAD + BODY[:-1])
    thread = threading.Thread(target=serve)
    thread.start()
    with pytest.raises(requests.exceptions.RequestException):
        _ = careful_session().get(url, timeout=10).content
    thread.join()
