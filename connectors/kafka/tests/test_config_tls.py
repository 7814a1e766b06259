"""Trust and key stores, held against OpenSSL with certificates made for the test."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import tempfile
import threading
import warnings

import pytest

from penstock.errors import BadConfigurationError
from penstock_kafka.client import open_consumer, open_producer
from penstock_kafka.client.broker import kafka_python_arguments
from penstock_kafka.config import ClientSettings

PASSWORD = "hunter2"


def check(client: ClientSettings) -> None:
    """Has librdkafka look at every value."""
    opening = open_consumer if client.role == "consumer" else open_producer
    opening(client.librdkafka(), "librdkafka").close()


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A directory with an authority, and a client's certificate and key as PEM, PEM with a password, and PKCS#12."""
    made = tmp_path_factory.mktemp("tls")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=made, check=True, capture_output=True)

    new = ["req", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    openssl(*new, "-x509", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    (made / "names").write_text("subjectAltName=DNS:localhost")
    openssl(*new, "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "request.pem")
    openssl(
        *("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-days", "2", "-extfile", "names", "-out", "cert.pem"),
    )
    openssl("pkcs8", "-topk8", "-in", "key.pem", "-passout", f"pass:{PASSWORD}", "-out", "locked.pem")
    openssl(
        "pkcs12", "-export", "-in", "cert.pem", "-inkey", "key.pem", "-passout", f"pass:{PASSWORD}", "-out", "both.p12"
    )
    (made / "both.pem").write_text((made / "locked.pem").read_text() + (made / "cert.pem").read_text())
    return made


def settings(**kafka):
    given = {name.replace("_", "."): str(value) for name, value in kafka.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        return ClientSettings.from_options({"bootstrap.servers": "h:1", "security.protocol": "SSL", **given}, "admin")


def shake_hands(store, context, name="localhost"):
    """A handshake with a server that wants to see a certificate of the authority; the client's subject as it saw it."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(store / "cert.pem", store / "key.pem")
    server.load_verify_locations(store / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    ours, theirs = socket.socketpair()
    seen = []

    def serve():
        try:
            with server.wrap_socket(theirs, server_side=True) as connection:
                seen.append(connection.getpeercert()["subject"])
                connection.send(b"x")
        except (ssl.SSLError, OSError):
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with context.wrap_socket(ours, server_hostname=name) as connection:
            connection.recv(1)
    finally:
        ours.close()
        thread.join()
    return seen


def identities(store):
    text = {name: (store / f"{name}.pem").read_text() for name in ("cert", "locked", "key")}
    return {
        "PEM files": {"ssl_certificate_location": store / "cert.pem", "ssl_key_location": store / "key.pem"},
        "PEM store": {
            "ssl_keystore_type": "PEM", "ssl_keystore_location": store / "both.pem", "ssl_key_password": PASSWORD
        },
        "PEM texts": {"ssl_keystore_certificate_chain": text["cert"], "ssl_keystore_key": text["key"]},
        "PEM texts in one line, with a password": {
            "ssl_keystore_type": "PEM",
            "ssl_keystore_certificate_chain": " ".join(text["cert"].split("\n")),
            "ssl_keystore_key": "\\n".join(text["locked"].split("\n")),
            "ssl_key_password": PASSWORD,
        },
        "PEM file and text": {"ssl_certificate_location": store / "cert.pem", "ssl_key_pem": text["key"]},
        "PKCS12": {"ssl_keystore_location": store / "both.p12", "ssl_keystore_password": PASSWORD},
    }  # fmt: skip


KINDS = (
    *("PEM files", "PEM store", "PEM texts", "PEM texts in one line, with a password"),
    *("PEM file and text", "PKCS12"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_both_libraries_take_the_identity(store, kind, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    built = settings(ssl_truststore_location=store / "ca.pem", ssl_truststore_type="PEM", **identities(store)[kind])
    if kind != "PEM file and text":  # librdkafka takes the two as files or as texts
        check(built)
    seen = shake_hands(store, kafka_python_arguments(built.librdkafka())["ssl_context"])
    assert seen == [((("commonName", "localhost"),),)]
    assert list(tmp_path.iterdir()) == []


def test_texts_pass_through_a_private_file(store, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes = []
    load = ssl.SSLContext.load_cert_chain

    def watched(self, path, *arguments, **more):
        modes.append((oct(os.stat(path).st_mode & 0o777), oct(os.stat(os.path.dirname(path)).st_mode & 0o777)))
        return load(self, path, *arguments, **more)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    kafka_python_arguments(settings(**identities(store)["PEM texts"]).librdkafka())
    assert modes == [("0o600", "0o700")] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "trust",
    [
        {"ssl_truststore_certificates": "text"},
        {"ssl_ca_location": "ca.pem"},
        {"ssl_ca_pem": "text"},
        {"ssl_truststore_location": "ca.pem"},
        {"enable_ssl_certificate_verification": "false"},
    ],
)
def test_trust(store, trust):
    words = {"text": (store / "ca.pem").read_text(), "ca.pem": store / "ca.pem"}
    built = settings(**identities(store)["PEM files"], **{name: words.get(v, v) for name, v in trust.items()})
    check(built)
    assert shake_hands(store, kafka_python_arguments(built.librdkafka())["ssl_context"])


def test_nobody_else_is_trusted(store):
    given = settings(**identities(store)["PEM files"]).librdkafka()
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(store, kafka_python_arguments(given)["ssl_context"])


def test_host_names(store):
    known = {**identities(store)["PEM files"], "ssl_ca_location": store / "ca.pem"}
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(store, kafka_python_arguments(settings(**known).librdkafka())["ssl_context"], "elsewhere")
    anybody = settings(**known, ssl_endpoint_identification_algorithm="")
    assert shake_hands(store, kafka_python_arguments(anybody.librdkafka())["ssl_context"], "elsewhere")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"ssl_key_location": "key.pem", "ssl_certificate_location": "none.pem"},
            "'kafka.ssl.certificate.location' can't",
        ),
        ({"ssl_certificate_location": "cert.pem"}, "'kafka.ssl.key.location' is missing"),
        (
            {"ssl_certificate_location": "cert.pem", "ssl_key_location": "locked.pem"},
            "'kafka.ssl.certificate.location'",
        ),
        (
            {"ssl_keystore_location": "both.p12", "ssl_keystore_password": "wrong"},
            "'kafka.ssl.keystore.location' can't",
        ),
        ({"ssl_ca_location": "none.pem"}, "'kafka.ssl.ca.location' can't be used"),
        ({"ssl_cipher_suites": "NONE-SUCH"}, "'kafka.ssl.cipher.suites' can't be used"),
    ],
)
def test_files_that_do_not_work(store, given, message):
    placed = {name: store / text if text.endswith((".pem", ".p12")) else text for name, text in given.items()}
    with pytest.raises(BadConfigurationError) as caught:
        kafka_python_arguments(settings(**placed).librdkafka())
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ssl_truststore_location": "/s/t.p12"}, "openssl pkcs12 -in '/s/t.p12' -nokeys -out '/s/t-ca.pem'"),
        ({"ssl_truststore_location": "t.jks"}, "keytool -importkeystore -srckeystore 't.jks' -destkeystore 't.p12'"),
        ({"ssl_keystore_location": "/s/k"}, "if it is no JKS file, say so: kafka.ssl.keystore.type=PKCS12 or PEM"),
        ({"ssl_keystore_location": "/s/k.p12", "ssl_keystore_type": "JKS"}, "is a JKS store"),
        (
            {"ssl_keystore_location": "/s/k.p12", "ssl_keystore_password": "a", "ssl_key_password": "b"},
            "write 'kafka.ssl.keystore.password' only",
        ),
        ({"ssl_keystore_key": "hunter2"}, "holds no PEM block"),
    ],
)
def test_stores_that_only_a_jvm_reads(given, message):
    with pytest.raises(BadConfigurationError) as caught:
        settings(**given)
    assert message in str(caught.value) and "hunter2" not in str(caught.value)
