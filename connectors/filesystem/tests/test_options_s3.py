"""What the options s3.* say is what a request says: where it goes, and who signs it for which region."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock.storage import open_storage
from penstock_filesystem.options import SINK_OPTIONS, SinkOptions


@pytest.fixture
def recorded():
    """A server that has nothing, its address, and the headers that it was sent."""
    headers = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            headers.append({name.lower(): text for name, text in self.headers.items()})
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_PUT = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", headers
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def _no_other_identity(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def given(address):
    return {
        "s3.endpoint": address,
        "s3.region": "eu-somewhere-7",
        "s3.key": "ANNA",
        "s3.secret": "of-anna",
        "s3.token": "the-token",
    }


def assert_signed(headers):
    assert headers, "nothing was asked there"
    for one in headers:
        assert "Credential=ANNA/" in one["authorization"] and "/eu-somewhere-7/s3/" in one["authorization"]
        assert one["x-amz-security-token"] == "the-token"


def test_a_source_asks_where_and_as_the_options_say(recorded, source_harness):
    address, headers = recorded
    options = {name.replace(".", "_", 1): text for name, text in given(address).items()}
    with contextlib.suppress(Exception):
        source_harness.splits(source_harness.source("s3://bucket/in", format="text", **options))
    assert_signed(headers)


def test_a_sink_asks_where_and_as_the_options_say(recorded):
    address, headers = recorded
    values = SINK_OPTIONS.parse({"path": "s3://bucket/out", **given(address)}, owner="sink")
    options = SinkOptions.from_values(values)
    storage, path = open_storage(options.path, options.storage_options)
    with contextlib.suppress(Exception):
        storage.read(f"{path}/x")
    assert_signed(headers)
