"""Every client that speaks TLS, with servers that it must not believe; what is said when a check is switched off."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import logging
import socket
import ssl
import threading
import time
from urllib.error import HTTPError
from urllib.request import Request

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from cryptography import x509
from google.oauth2.credentials import Credentials

from authority import Authority
from penstock.errors import BadConfigurationError, PenstockError
from penstock.options import _set
from penstock.serialization.formats import create_encoder
from penstock.storage import AzureStorage, GcsStorage, S3Storage, _gcs_client
from penstock.tls import client_context, refuse_old_versions, warn_of_unchecked
from penstock.token_service import ask_for_token
from penstock_cassandra.client import ConnectionSettings
from penstock_kafka.client.broker import kafka_python_arguments
from penstock_kafka.client.login._oidc import OidcTokenProvider
from penstock_kafka.client.login._tls import https_context, ssl_context
from penstock_kafka.config import ClientSettings
from penstock_pravega.client import Controller, ControllerSettings, KeycloakCredentials
from penstock_pravega.client._connection import Connection
from suite.gcs import service_account_key

HERE = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
BODY = json.dumps({"access_token": "t", "expires_in": 60, "id": 1}).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(BODY), BODY)


pytestmark = pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")


class Server:
    """Speaks TLS on 127.0.0.1 and answers everything with ``ANSWER``. ``heard`` is what came through."""

    def __init__(self, certificate, newest=ssl.TLSVersion.TLSv1_3):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if newest < ssl.TLSVersion.TLSv1_2:
            self.context.minimum_version = ssl.TLSVersion.TLSv1
            self.context.set_ciphers("ALL:@SECLEVEL=0")
        self.context.maximum_version = newest
        self.context.load_cert_chain(certificate)
        self.context.set_alpn_protocols(["h2", "http/1.1"])  # gRPC sends nothing without the first
        self.heard = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            with self.context.wrap_socket(client, server_side=True) as secure:
                secure.settimeout(10)
                self.heard.append(secure.recv(10_000))
                secure.sendall(ANSWER)
        except OSError:
            client.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tls")
    authority = Authority("authority")
    authority.write(made / "ca.pem")
    authority.issue(made / "right.pem", HERE)
    authority.issue(made / "another name.pem", x509.DNSName("elsewhere.example"))
    authority.issue(made / "expired.pem", HERE, until=datetime.timedelta(-1))
    Authority("another authority").issue(made / "another authority.pem", HERE)
    return made


@pytest.fixture
def serve(folder):
    started = []

    def start(what):
        old = what == "an old version"
        versions = {"newest": ssl.TLSVersion.TLSv1_1} if old else {}
        started.append(Server(folder / f"{'right' if old else what}.pem", **versions))
        return started[-1]

    yield start
    for server in started:
        server.close()


def by_context(context, port):
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        secure.sendall(b"secret")
        assert secure.recv(1)


def kafka_settings(port, ca, **more):
    given = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SSL", "ssl.ca.location": ca, **more}
    return ClientSettings.from_options(given, "producer").librdkafka()


def kafka_any_cipher(port, ca):
    """A user who lowers OpenSSL's level of security still gets no old version."""
    settings = kafka_settings(port, ca, **{"ssl.cipher.suites": "DEFAULT:@SECLEVEL=0"})
    by_context(kafka_python_arguments(settings)["ssl_context"], port)


def librdkafka(port, ca):
    problems = []
    producer = Producer({**kafka_settings(port, ca), "error_cb": problems.append, "log_level": 0})
    # Of a connection that works but answers nonsense it says something else.
    while not problems:
        producer.poll(0.02)
    # On a busy machine something else may be said first.
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline and not any(one.name() == "_SSL" for one in problems):
        producer.poll(0.02)
    for one in problems:
        if one.name() == "_SSL":
            raise ConnectionError(one.str())


def oidc(port, ca):
    url = f"https://127.0.0.1:{port}/token"
    OidcTokenProvider(url, lambda: Request(url, b"x"), context=https_context(trusting(ca))).token()


def trusting(ca):
    return {"https.ca.location": ca, "ssl.ca.location": ca}


def keycloak(port, ca):
    KeycloakCredentials(f"https://127.0.0.1:{port}", "realm", "client", "s3cr3t", ca_file=ca).fetch()


def registry(port, ca):
    options = {
        "schema.registry.url": f"https://127.0.0.1:{port}", "ssl.ca.location": ca, "max.retries": "0",
        "subject": "s", "schema": '"string"', "auto.register.schemas": "true",
    }  # fmt: skip
    create_encoder("avro", options, pa.string())


def pravega_store(port, ca):
    Connection("127.0.0.1", port, 10, pravega(port, ca).tls_context())


def pravega(port, ca):
    return ControllerSettings(f"tls://127.0.0.1:{port}", ca_file=ca, timeout_s=5, tries=1)


def s3(port, ca):
    store(port).size("bucket/key")


def store(port):
    return S3Storage({"endpoint": f"https://127.0.0.1:{port}", "key": "k", "secret": "s"})


def azure(port, ca):
    AzureStorage("account", {"endpoint": f"https://127.0.0.1:{port}/account", "key": "a2V5"}).size("container/blob")


def gcs(port, ca):
    GcsStorage({"endpoint": f"https://127.0.0.1:{port}"}).size("bucket/object")


def gcs_tokens(port, ca):
    key = service_account_key(f"https://127.0.0.1:{port}/token")
    GcsStorage({"endpoint": f"https://127.0.0.1:{port}", "credentials": key}).size("bucket/object")


CLIENTS = {
    "kafka": lambda port, ca: by_context(ssl_context(trusting(ca)), port),
    "kafka, any cipher": kafka_any_cipher,
    "kafka, librdkafka": librdkafka,
    "kafka, tokens": oidc,
    "cassandra": lambda port, ca: by_context(ConnectionSettings(tls=True, tls_ca_file=ca).tls_context(), port),
    "pravega, segment store": pravega_store,
    "pravega, controller": lambda port, ca: list(Controller(pravega(port, ca)).list_scopes()),
    "pravega, tokens": keycloak,
    "schema registry": registry,
    "s3": s3,
    "azure": azure,
    "gcs": gcs,
    "gcs, tokens": gcs_tokens,
    "s3, by Arrow": lambda port, ca: store(port).fs.get_file_info("bucket/key"),
}


@pytest.fixture
def fast(monkeypatch, folder):
    """One try each; and what S3, Azure and Google's store take from the environment only."""
    credentials = _gcs_client._credentials
    monkeypatch.setattr(_gcs_client, "_credentials", lambda of: credentials(of) if of.credentials else Credentials("t"))
    monkeypatch.setattr(_gcs_client, "_TRIES", 1)
    monkeypatch.setattr("penstock.storage._s3._ATTEMPTS", 1)
    monkeypatch.setattr("penstock_pravega.client._keycloak._TRIES", 1)
    monkeypatch.setattr("penstock.storage._azure_client._RETRIES", 0)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(folder / "ca.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder / "ca.pem"))


@pytest.mark.parametrize("client", CLIENTS)
def test_the_right_server_is_believed(folder, serve, fast, client):
    """What it answers makes sense to some only; it hears what they send."""
    server = serve("right")
    with contextlib.suppress(PenstockError, OSError, ValueError):
        CLIENTS[client](server.port, str(folder / "ca.pem"))
    assert any(server.heard)


@pytest.mark.parametrize("what", ["another name", "expired", "another authority", "an old version"])
@pytest.mark.parametrize("client", CLIENTS)
def test_others_are_told_nothing(folder, serve, fast, client, what):
    """A certificate that is refused will be so again: it is told as what waiting can't change."""
    server = serve(what)
    passing = what == "an old version" or client in ("kafka, librdkafka", "s3, by Arrow")
    expected = (PenstockError, OSError) if passing else (BadConfigurationError, ssl.SSLCertVerificationError)
    with pytest.raises(expected) as caught:
        CLIENTS[client](server.port, str(folder / "ca.pem"))
    assert not any(server.heard)
    assert "s3cr3t" not in str(caught.value)


def test_the_old_version_is_what_is_refused(serve):
    """A client that takes anything gets in."""
    server = serve("an old version")
    anything = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anything.check_hostname, anything.verify_mode = False, ssl.CERT_NONE
    anything.minimum_version = ssl.TLSVersion.TLSv1
    anything.set_ciphers("ALL:@SECLEVEL=0")
    by_context(anything, server.port)
    assert any(server.heard)


def test_versions_do_not_depend_on_the_system():
    allows_all, demands_more = (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) for _ in range(2))
    allows_all.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    demands_more.minimum_version = ssl.TLSVersion.TLSv1_3
    assert refuse_old_versions(allows_all).minimum_version == ssl.TLSVersion.TLSv1_2
    assert refuse_old_versions(demands_more).minimum_version == ssl.TLSVersion.TLSv1_3
    assert client_context().minimum_version == ssl.TLSVersion.TLSv1_2 and client_context().check_hostname


@pytest.fixture
def unwarned(monkeypatch):
    monkeypatch.setattr(_set, "_warned", set())


UNCHECKED = {
    "cassandra": lambda: ConnectionSettings(tls=True, tls_check_hostname=False).tls_context(),
    "pravega": lambda: ControllerSettings("tls://h:1", validate_host=False).tls_context(),
    "kafka names": lambda: kafka_settings(1, "x", **{"ssl.endpoint.identification.algorithm": ""}),
    "kafka": lambda: kafka_settings(1, "x", **{"enable.ssl.certificate.verification": "false"}),
}


@pytest.mark.parametrize("which", UNCHECKED)
def test_a_check_that_is_switched_off_is_said_once(which, unwarned, caplog):
    with caplog.at_level(logging.WARNING):
        UNCHECKED[which]()
        UNCHECKED[which]()
    (said,) = [record.getMessage() for record in caplog.records]
    assert "can pose as the one you mean" in said
    assert ("any server" if which == "kafka" else "any certificate of a trusted authority") in said


def test_nothing_is_said_where_all_is_checked(unwarned, caplog):
    with caplog.at_level(logging.WARNING):
        ConnectionSettings(tls=True).tls_context()
        ConnectionSettings(tls_check_hostname=False).tls_context()
        ControllerSettings("tls://h:1").tls_context()
        kafka_settings(1, "x")
        kafka_settings(1, "x", **{"security.protocol": "PLAINTEXT", "enable.ssl.certificate.verification": "false"})
    assert caplog.records == []


def test_the_warning_names_the_option(unwarned, caplog):
    with caplog.at_level(logging.WARNING):
        warn_of_unchecked("tls.checkHostname=false", names_only=True)
    assert caplog.records[0].getMessage().startswith("tls.checkHostname=false: ")


class Plain:
    """Answers an HTTP request on 127.0.0.1 with ``answer``, and notes it."""

    def __init__(self, answer):
        self.answer, self.heard = answer, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/token"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client:
                self.heard.append(client.recv(10_000))
                client.sendall(self.answer)


@pytest.fixture
def plain():
    started = []

    def start(answer):
        started.append(Plain(answer))
        return started[-1]

    yield start
    for server in started:
        server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()


ASKING = {
    "kafka": lambda url: OidcTokenProvider(
        url, lambda: Request(url, b"s3cr3t", {"Authorization": "s3cr3t"}), context=None
    ).token(),
    "pravega": lambda url: KeycloakCredentials(url, "realm", "client", "s3cr3t").fetch(),
}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("client", ASKING)
def test_a_token_is_asked_for_where_the_user_said(plain, status, client):
    elsewhere = plain(ANSWER)
    head = f"HTTP/1.1 {status} x\r\nLocation: {elsewhere.url}\r\nContent-Length: 0\r\n\r\n"
    redirecting = plain(head.encode())
    with pytest.raises(BadConfigurationError, match=r"redirect.* is not followed"):
        ASKING[client](redirecting.url)
    assert redirecting.heard and elsewhere.heard == []


def test_a_long_answer_is_cut_off(plain):
    endless = plain(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"x" * (1 << 20) + b"y")
    with pytest.raises(ValueError, match="more than"):
        ask_for_token(Request(endless.url), timeout_s=10)


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x"])
def test_a_token_comes_by_http(address):
    with pytest.raises(OSError, match="unknown url type"):
        ask_for_token(Request(address), timeout_s=10)


def test_a_refusal_has_its_status(plain):
    with pytest.raises(HTTPError) as caught:
        ask_for_token(Request(plain(b"HTTP/1.1 401 no\r\nContent-Length: 2\r\n\r\nno").url), timeout_s=10)
    assert (caught.value.code, caught.value.read()) == (401, b"no")
