"""Arguments for kafka-python, held against what it declares; tokens, against a server of the test's own."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from kafka import KafkaAdminClient

from penstock.errors import BadConfigurationError, RetriableError
from penstock_kafka.client.broker import kafka_python_arguments
from penstock_kafka.client.login import token_source
from penstock_kafka.config import ClientSettings

EVERYTHING = {
    "bootstrap.servers": "SASL_SSL://a:1, b:2,",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "u",
    "sasl.password": "hunter2",
    "client.dns.lookup": "use_all_dns_ips",
    "client.id": "me",
    "connections.max.idle.ms": "60000",
    "metadata.max.age.ms": "50000",
    "receive.buffer.bytes": "65536",
    "receive.message.max.bytes": "200000000",
    "reconnect.backoff.max.ms": "2000",
    "reconnect.backoff.ms": "20",
    "request.timeout.ms": "7000",
    "retry.backoff.ms": "30",
    "send.buffer.bytes": "65536",
    "fetch.min.bytes": "1",
}


def arguments(**given):
    kafka = {"bootstrap.servers": "h:1", **{name.replace("_", "."): text for name, text in given.items()}}
    return kafka_python_arguments(ClientSettings.from_options(kafka, "admin").librdkafka())


def test_every_argument_is_one():
    found = kafka_python_arguments(ClientSettings.from_options(EVERYTHING, "admin").librdkafka())
    assert set(found) <= set(KafkaAdminClient.DEFAULT_CONFIG)
    del found["ssl_context"]
    assert found == {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_dns_lookup": "use_all_dns_ips",
        "client_id": "me",
        "connections_max_idle_ms": 60000,
        "metadata_max_age_ms": 50000,
        "receive_buffer_bytes": 65536,
        "receive_message_max_bytes": 200000000,
        "reconnect_backoff_max_ms": 2000,
        "reconnect_backoff_ms": 20,
        "request_timeout_ms": 7000,
        "retry_backoff_ms": 30,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_password": "hunter2",
        "sasl_plain_username": "u",
        "security_protocol": "SASL_SSL",
        "send_buffer_bytes": 65536,
    }


def test_plain_text_needs_little_and_system_defaults_stay():
    found = arguments(connections_max_idle_ms="0", send_buffer_bytes="-1")
    assert found == {"bootstrap_servers": ["h:1"], "security_protocol": "PLAINTEXT"}


def test_settings_do_not_import_it_for_tasks():
    code = "import sys, penstock_kafka.options; sys.exit('kafka' in sys.modules or 'confluent_kafka' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


def test_a_real_client_takes_them(kafka):
    client = KafkaAdminClient(
        **kafka_python_arguments(
            ClientSettings.from_options({"bootstrap.servers": kafka.address}, "admin").librdkafka()
        )
    )
    try:
        assert client.describe_cluster()
    finally:
        client.close()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"retry_backoff_ms": "x"}, "'kafka.retry.backoff.ms' needs a number, not 'x'"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "'kafka.sasl.username' is missing: PLAIN"),
        ({"security_protocol": "SASL_SSL"}, "pip install 'penstock-kafka[kerberos]'"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "OAUTHBEARER, which needs tokens: write"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_method": "oidc"},
            "'kafka.sasl.oauthbearer.token.endpoint.url' is missing",
        ),
        (
            {
                "security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_method": "oidc",
                "sasl_oauthbearer_token_endpoint_url": "file:///etc/passwd",
            },
            "must begin with https:// or http://",
        ),
    ],
)  # fmt: skip
def test_what_it_can_not_do(given, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(BadConfigurationError) as caught:
        arguments(**given)
    assert message in str(caught.value)


@pytest.fixture
def tokens():
    """A token endpoint: ``asked`` holds requests, ``answer`` what it says (status, body)."""

    class Endpoint(BaseHTTPRequestHandler):
        asked: list = []  # noqa: RUF012
        answer = (200, {"access_token": "t1", "expires_in": 600})

        def do_POST(self):
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.asked.append((self.headers["Authorization"], form))
            status, body = type(self).answer
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def do_GET(self):
            self.asked.append((self.headers["Metadata"], parse_qs(self.path.partition("?")[2])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(type(self).answer[1]).encode())

        def log_message(self, *arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    Endpoint.url = f"http://127.0.0.1:{server.server_port}/token"
    yield Endpoint
    server.shutdown()
    thread.join()
    server.server_close()


class Made:
    """A source of tokens, and what kafka-python gets of it."""

    def __init__(self, **given):
        kafka = {"bootstrap.servers": "h:1", **{name.replace("_", "."): text for name, text in given.items()}}
        self.source = token_source(ClientSettings.from_options(kafka, "admin").librdkafka())
        self.given = arguments(**given)["sasl_oauth_token_provider"]

    def token(self):
        return self.source.current().value

    def extensions(self):
        return self.given.extensions()

    def __repr__(self):
        return f"{self.source!r} {self.given!r} {self.source.current()!r}"


def provider(url, **more):
    return Made(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_method="oidc",
        sasl_oauthbearer_token_endpoint_url=url, sasl_oauthbearer_client_id="me",
        sasl_oauthbearer_client_secret="hunter2", **more,
    )  # fmt: skip


def test_tokens_are_fetched_and_kept(tokens):
    made = provider(tokens.url, sasl_oauthbearer_scope="a b", sasl_oauthbearer_extensions="x=1,y=2")
    assert (made.token(), made.token(), made.extensions()) == ("t1", "t1", {"x": "1", "y": "2"})
    assert made.given.token() == "t1"
    basic = "Basic " + base64.b64encode(b"me:hunter2").decode()
    assert tokens.asked == [(basic, {"grant_type": ["client_credentials"], "scope": ["a b"]})]
    assert "hunter2" not in repr(made) and "t1" not in repr(made)


JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_tokens_by_an_assertion_that_is_signed(tokens, tmp_path, algorithm):
    key = rsa.generate_private_key(65537, 2048) if algorithm == "RS256" else ec.generate_private_key(ec.SECP256R1())
    secret = BestAvailableEncryption(b"hunter2")
    (tmp_path / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret))
    (tmp_path / "template.json").write_text('{"header": {"kid": "k1"}, "payload": {"groups": ["a"]}}')
    made = provider(
        tokens.url, sasl_oauthbearer_grant_type=JWT_BEARER, sasl_oauthbearer_scope="a",
        sasl_oauthbearer_assertion_algorithm=algorithm, sasl_oauthbearer_assertion_claim_aud="them",
        sasl_oauthbearer_assertion_claim_sub="me", sasl_oauthbearer_assertion_claim_jti_include="true",
        sasl_oauthbearer_assertion_private_key_file=str(tmp_path / "key.pem"),
        sasl_oauthbearer_assertion_private_key_passphrase="hunter2",
        sasl_oauthbearer_assertion_template_file=str(tmp_path / "template.json"),
    )  # fmt: skip
    assert made.token() == "t1"
    ((authorization, form),) = tokens.asked
    assert authorization is None and (form["grant_type"], form["scope"]) == ([JWT_BEARER], ["a"])
    text, _, signature = form["assertion"][0].rpartition(".")
    header, claims = (json.loads(decoded(part)) for part in text.split("."))
    assert header == {"alg": algorithm, "typ": "JWT", "kid": "k1"}
    assert (claims["aud"], claims["sub"], claims["groups"]) == ("them", "me", ["a"]) and claims["jti"]
    assert claims["exp"] - claims["iat"] == 300 and claims["iat"] - claims["nbf"] == 60
    if algorithm == "RS256":
        key.public_key().verify(decoded(signature), text.encode(), padding.PKCS1v15(), SHA256())
    else:
        numbers = (int.from_bytes(half, "big") for half in (decoded(signature)[:32], decoded(signature)[32:]))
        key.public_key().verify(encode_dss_signature(*numbers), text.encode(), ec.ECDSA(SHA256()))


def decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_tokens_by_an_assertion_that_somebody_else_renews(tokens, tmp_path):
    tokens.answer = (200, {"access_token": "t1", "expires_in": 0})
    file = tmp_path / "assertion"
    settings = {"sasl_oauthbearer_grant_type": JWT_BEARER, "sasl_oauthbearer_assertion_file": str(file)}
    made = provider(tokens.url, **settings)
    with pytest.raises(BadConfigurationError, match=r"'kafka\.sasl\.oauthbearer\.assertion\.file' can't be read"):
        made.token()
    for text in ("first", "second"):
        file.write_text(f"{text}\n")
        made.token()
    assert [form["assertion"] for _, form in tokens.asked] == [["first"], ["second"]]


def test_tokens_of_the_machine(tokens):
    made = provider(
        tokens.url, sasl_oauthbearer_metadata_authentication_type="azure_imds",
        sasl_oauthbearer_config="query=api-version=1&resource=them",
    )  # fmt: skip
    assert made.token() == "t1"
    assert tokens.asked == [("true", {"api-version": ["1"], "resource": ["them"]})]


@pytest.mark.parametrize("algorithm", ["RS256", "HS256"])
def test_a_key_that_does_not_fit_is_said_so(tokens, tmp_path, algorithm):
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with pytest.raises(BadConfigurationError, match=r"assertion\.algorithm"):
        provider(
            tokens.url, sasl_oauthbearer_grant_type=JWT_BEARER, sasl_oauthbearer_assertion_algorithm=algorithm,
            sasl_oauthbearer_assertion_private_key_pem=pem,
        )  # fmt: skip


def test_old_tokens_are_renewed(tokens):
    tokens.answer = (200, {"access_token": "t1", "expires_in": 0})
    made = provider(tokens.url)
    assert made.token() == "t1"
    tokens.answer = (200, {"access_token": "t2"})
    assert made.token() == "t2"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((401, {"error": "hunter2"}), BadConfigurationError),
        ((503, {}), RetriableError),
        ((200, {"token": "hunter2"}), BadConfigurationError),
        ((200, ["hunter2"]), BadConfigurationError),
    ],
)
def test_refusals(tokens, answer, error):
    tokens.answer = answer
    with pytest.raises(error) as caught:
        provider(tokens.url).token()
    assert tokens.url in str(caught.value) and "hunter2" not in str(caught.value)


def test_nobody_there(tokens):
    with pytest.raises(RetriableError, match="can't be reached"):
        provider("http://127.0.0.1:9/token").token()
