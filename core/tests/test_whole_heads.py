"""An answer that is cut off in its head is a failure, wherever it is cut."""

from __future__ import annotations

import socket
import threading

import pytest
import requests

from penstock.errors import RetriableError
from penstock.storage import S3Storage
from penstock.storage._transport import make_careful

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nX-Other: abc\r\nDate: Sat, 28 Nov 2026 12:00:00 GMT\r\n\r\n"
BODY = b"hello world!"


@pytest.fixture
def server():
    """Answers each request, which has no body, with the bytes that are next in the list, and closes the connection."""
    answers = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            while answers:
                connection, _ = listening.accept()
                with connection:
                    request = b""
                    while b"\r\n\r\n" not in request:
                        request += connection.recv(65536)
                    if b"100-continue" in request:
                        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
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
    session = make_careful(requests.Session())
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
        _ = make_careful(requests.Session()).get(url, timeout=10).content
    thread.join()


@pytest.mark.parametrize("ask", ["size", "age_s", "read", "create"])
def test_a_head_of_s3_that_is_cut_anywhere(server, monkeypatch, ask):
    """Half a length would be a shorter object."""
    url, answers, serve = server
    monkeypatch.setattr("penstock.storage._s3._ATTEMPTS", 1)
    monkeypatch.setattr("penstock.storage._endpoint.look_at", lambda *_, **__: None)  # it would take answers, too
    storage = S3Storage({"endpoint": url, "key": "k", "secret": "s"})
    head = HEAD.replace(b"X-Other", b'ETag: "abc"\r\nLast-Modified: Sat, 28 Nov 2026 12:00:00 GMT\r\nX-Other')
    if ask == "create":
        head = head.replace(b"Content-Length: 12", b"Content-Length: 0")
    cuts = range(len(head))
    answers += [head[:cut] for cut in cuts]
    answers.append(head + (BODY if ask == "read" else b""))
    thread = threading.Thread(target=serve)
    thread.start()
    arguments = ("bucket/key", b"") if ask == "create" else ("bucket/key",)
    for _ in cuts:
        with pytest.raises(RetriableError):
            getattr(storage, ask)(*arguments)
    answer = getattr(storage, ask)(*arguments)
    thread.join()
    assert ask == "age_s" or answer == {"size": 12, "read": BODY, "create": True}[ask]
