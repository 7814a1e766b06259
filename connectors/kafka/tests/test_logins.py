"""Every login against a real broker that refuses the wrong one, by both clients, reading and writing exactly once."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import itertools
import os
import re
import struct
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from kafka.errors import SaslAuthenticationFailedError

from authority import Authority
from identity import SECRET, IdentityProvider, stand_in
from penstock.dev import LocalServer, free_ports
from penstock.errors import BadConfigurationError, RetriableError
from penstock.testing import SinkQuery, SourceQuery
from penstock.tokens import Token, TokenProvider
from penstock_kafka import KafkaConnector
from penstock_kafka.client import PartitionRange, open_consumer, open_producer
from penstock_kafka.client.broker import BrokerConnection, Connections, ProblemError, kafka_python_arguments
from penstock_kafka.client.broker._settings import connection_settings
from penstock_kafka.config import ClientSettings
from penstock_kafka.dev import KafkaDevServer, KafkaToolbox

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string())])
PASSWORD = "alice, = s3cr3t"
#: A comma and an equals sign mean something to SCRAM.
SCRAM_USER = "al=ice,2"
PROVIDER = "kafka.sasl.oauthbearer.token.provider"
PAGE = Path(__file__).parents[3] / "docs/production/logins.md"
#: A wrong login is reported within seconds. If it was tried again, that would be for two minutes (``retryTimeout``), so
#: this holds on a slow machine, too.
AT_ONCE_S = 60.0


class Servers:
    """``address`` is the listener with SASL, ``certified`` the one that wants certificates."""

    def __init__(self, folder, server, address, certified, identity):
        self.folder, self.address, self.certified, self.identity = folder, address, certified, identity
        #: A delegation token, made when it is first needed.
        self.token = None
        self.kafka = KafkaToolbox(server.address)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logins")
    authority = Authority("test authority")
    authority.write(folder / "ca.pem")
    authority.issue(folder / "broker.pem", x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    authority.issue(folder / "alice.pem", x509.DNSName("alice"))
    Authority("another authority").issue(folder / "mallory.pem", x509.DNSName("alice"))
    port, controller, login, certified = free_ports(4)
    listeners = ",".join(
        f"{name}://127.0.0.1:{at}" for name, at in (("PLAINTEXT", port), ("LOGIN", login), ("CERTIFIED", certified))
    )
    security = "org.apache.kafka.common.security"
    with IdentityProvider() as identity:
        oauth = "listener.name.login.oauthbearer"
        properties = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CERTIFIED:SSL"
            ),
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.login.plain.sasl.jaas.config": (
                f'{security}.plain.PlainLoginModule required user_alice="{PASSWORD}";'
            ),
            **{
                f"listener.name.login.scram-sha-{bits}.sasl.jaas.config": (
                    f"{security}.scram.ScramLoginModule required;"
                )
                for bits in (256, 512)
            },
            f"{oauth}.sasl.jaas.config": f"{security}.oauthbearer.OAuthBearerLoginModule required;",
            f"{oauth}.sasl.server.callback.handler.class": (
                f"{security}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
            f"{oauth}.sasl.oauthbearer.jwks.endpoint.url": f"{identity.url}/jwks",
            f"{oauth}.sasl.oauthbearer.expected.audience": "kafka",
            # A session ends with its token, and no later than this.
            f"{oauth}.connections.max.reauth.ms": "3600000",
            "listener.name.certified.ssl.client.auth": "required",
            "listener.name.certified.ssl.keystore.location": str(folder / "broker.pem"),
            "listener.name.certified.ssl.keystore.type": "PEM",
            "listener.name.certified.ssl.truststore.location": str(folder / "ca.pem"),
            "listener.name.certified.ssl.truststore.type": "PEM",
            # Of a test.
            "delegation.token.secret.key": "k3y-of-tokens",
        }
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={identity.url}/jwks"
        before = os.environ.get("PENSTOCK_DEV_JAVA_OPTIONS")
        os.environ["PENSTOCK_DEV_JAVA_OPTIONS"] = f"{before or ''} {allowed}"
        try:
            server = LocalServer(
                KafkaDevServer(properties, quick_start=True), folder / "kafka", ports=(port, controller)
            )
            with server:
                made = Servers(folder, server, f"127.0.0.1:{login}", f"127.0.0.1:{certified}", identity)
                add_scram_user(made.kafka.address)
                yield made
        finally:
            if before is None:
                del os.environ["PENSTOCK_DEV_JAVA_OPTIONS"]
            else:
                os.environ["PENSTOCK_DEV_JAVA_OPTIONS"] = before


def add_scram_user(address):
    admin = AdminClient({"bootstrap.servers": address})
    changes = [
        UserScramCredentialUpsertion(SCRAM_USER, ScramCredentialInfo(kind, 4096), PASSWORD.encode())
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    for change in changes:
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(10)


@pytest.fixture
def identity(servers):
    """The provider of identities, as it was."""
    yield servers.identity
    servers.identity.lasts_s, servers.identity.is_away = 300.0, False


class OwnTokens(TokenProvider):
    """A provider of a user's own; ``identity`` is set by the tests."""

    identity: IdentityProvider
    by_another = False

    def __init__(self, settings):
        self.user = settings["user"]

    def token(self):
        if self.identity.is_away:
            raise ConnectionError("the provider is away")
        value = self.identity.token(sub=self.user, by_another=self.by_another)
        return Token(value, time.time() + self.identity.lasts_s, principal=self.user)


class WrongTokens(OwnTokens):
    by_another = True


def login_of(servers, name, right=True):
    """The settings of a login, and the wrong ones that are like it."""
    OwnTokens.identity = servers.identity
    sasl = {"kafka.bootstrap.servers": servers.address, "kafka.security.protocol": "SASL_PLAINTEXT"}
    if name == "mtls":
        pem = str(servers.folder / ("alice.pem" if right else "mallory.pem"))
        return {
            "kafka.bootstrap.servers": servers.certified,
            "kafka.security.protocol": "SSL",
            "kafka.ssl.ca.location": str(servers.folder / "ca.pem"),
            "kafka.ssl.certificate.location": pem,
            "kafka.ssl.key.location": pem,
        }
    if name == "oidc":
        return {
            **sasl,
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.method": "oidc",
            "kafka.sasl.oauthbearer.token.endpoint.url": f"{servers.identity.url}/token",
            "kafka.sasl.oauthbearer.client.id": "alice",
            "kafka.sasl.oauthbearer.client.secret": SECRET if right else "wr0ng-s3cr3t",
        }
    if name == "own":
        return {
            **sasl,
            "kafka.sasl.mechanism": "OAUTHBEARER",
            PROVIDER: f"{__name__}:{'OwnTokens' if right else 'WrongTokens'}",
            "kafka.sasl.oauthbearer.config": f"user=alice-{uuid.uuid4().hex[:8]}",
        }
    if name in ("azure", "google"):
        config = {"azure": "scope=kafka/.default", "google": "audience=kafka"}[name]
        # For another audience, the vendor gives a token and the broker refuses it.
        return {
            **sasl,
            "kafka.sasl.mechanism": "OAUTHBEARER",
            PROVIDER: name,
            "kafka.sasl.oauthbearer.config": config if right else config.replace("kafka", "elsewhere"),
        }
    if name == "delegation":
        token, hmac = servers.token = servers.token or delegation_token(servers)
        wrong = base64.b64encode(b"wr0ng-s3cr3t").decode()
        return {
            **sasl,
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.username": token,
            "kafka.sasl.password": hmac if right else wrong,
            "kafka.sasl.scram.tokenauth": "true",
        }
    return {
        **sasl,
        "kafka.sasl.mechanism": name,
        "kafka.sasl.username": "alice" if name == "PLAIN" else SCRAM_USER,
        "kafka.sasl.password": PASSWORD if right else "wr0ng-s3cr3t",
    }


def delegation_token(servers):
    """A new token's id and HMAC. No client library here can ask for one (KIP-48)."""
    config = plain(login_of(servers, "SCRAM-SHA-512"))
    connection = BrokerConnection(kafka_python_arguments(config), 10)
    host, _, port = servers.address.partition(":")
    try:
        connection.connect(host, int(port))
        # Kind 38, version 1: no renewers, and the longest life.
        request = struct.pack(">hhi", 38, 1, 1) + struct.pack(">h4s", 4, b"test") + struct.pack(">iq", 0, -1)
        connection._socket.sendall(struct.pack(">i", len(request)) + request)
        answer = connection._socket.recv(4096)[8:]
    finally:
        connection.close()
    (code,) = struct.unpack_from(">h", answer)
    assert code == 0, code
    at, texts = 2, []
    for _ in range(2):  # the owner's type and name
        at += 2 + struct.unpack_from(">h", answer, at)[0]
    at += 24  # three times
    for form in (">h", ">i"):
        (length,) = struct.unpack_from(form, answer, at)
        at += struct.calcsize(form)
        texts.append(answer[at : at + length])
        at += length
    token, hmac = texts[0].decode(), base64.b64encode(texts[1]).decode()
    config |= {"sasl.username": token, "sasl.password": hmac, "sasl.scram.tokenauth": "true"}
    await_login(servers.address, config)
    return token, hmac


def await_login(address, config):
    """Returns when a broker lets a user in, of whom it learns from the controller."""
    host, _, port = address.partition(":")
    until = time.monotonic() + 10
    while True:
        connection = BrokerConnection(kafka_python_arguments(config), 10)
        try:
            return connection.connect(host, int(port))
        except SaslAuthenticationFailedError:
            assert time.monotonic() < until
            time.sleep(0.05)
        finally:
            connection.close()


LOGINS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "oidc", "own", "mtls", "azure", "google", "delegation"]
#: Each login by one client, and both ways to tokens by both.
FIRST = {("protocol", login) for login in LOGINS if login != "SCRAM-SHA-512"} | {
    ("librdkafka", login) for login in ("SCRAM-SHA-512", "own", "mtls")
}
PAIRS = pytest.mark.parametrize(
    ("client", "login"),
    [
        pytest.param(
            *pair,
            marks=() if pair in FIRST else pytest.mark.exhaustive("the other pairs of client and login"),
        )
        for pair in itertools.product(("protocol", "librdkafka"), LOGINS)
        if pair != ("librdkafka", "delegation")
    ],
    indirect=["client"],
)


@pytest.fixture(autouse=True)
def vendors(servers, monkeypatch):
    """The endpoints of a managed identity of Azure's and of a machine of Google's, as their libraries look for them."""
    stand_in(servers.identity, monkeypatch.setenv)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)


def source_query(settings, **options):
    parsed = KafkaConnector.source_options.parse({**settings, **options}, owner="source penstock.kafka")
    source = KafkaConnector().create_source(parsed)
    return SourceQuery(source, source.fixed_schema())


def sink_query(settings, checkpoint, **options):
    given = {"delivery": "exactly-once", **settings, **options}
    parsed = KafkaConnector.sink_options.parse(given, owner="sink penstock.kafka")
    return SinkQuery(KafkaConnector().create_sink(parsed, SCHEMA), SCHEMA, checkpoint)


def rows(*values):
    return pa.record_batch([[f"k{value}" for value in values], list(values)], schema=SCHEMA)


def values_of(servers, topic):
    return sorted(record.value for record in servers.kafka.read(topic))


@PAIRS
def test_a_login_reads_and_writes(servers, client, login, tmp_path):
    topic = servers.kafka.create_topic()
    settings = login_of(servers, login)
    query = sink_query(settings, tmp_path / "ck", topic=topic, client=client)
    query.run_all([[[rows("a", "b")], [rows("c")]], [[rows("d")]]])
    assert values_of(servers, topic) == [b"a", b"b", b"c", b"d"]
    query = source_query(settings, subscribe=topic, startingOffsets="earliest", client=client)
    try:
        assert sorted(row["value"] for row in query.read_all_now()) == [b"a", b"b", b"c", b"d"]
    finally:
        query.stop()


@PAIRS
def test_a_wrong_login_is_reported_at_once(servers, client, login, tmp_path):
    settings = login_of(servers, login, right=False)
    for start in (
        lambda: source_query(settings, subscribe="t", client=client).read_all_now(),
        lambda: sink_query(settings, tmp_path / "ck", topic="t", client=client).run(0, [[rows("a")]]),
    ):
        began = time.monotonic()
        with pytest.raises(BadConfigurationError) as refused:
            start()
        assert time.monotonic() - began < AT_ONCE_S
        said = str(refused.value)
        assert "s3cr3t" not in said and "\n" not in said
        assert "127.0.0.1:" in said and "kafka.s" in said


@PAIRS
def test_a_client_alone_reports_a_wrong_login_at_once(servers, client, login):
    """As in a task, whose driver was let in: the password was changed meanwhile, say."""
    config = plain(login_of(servers, login, right=False))

    def read():
        consumer = open_consumer(config, client)
        try:
            consumer.assign([PartitionRange("t", 0, 0, 10)], headers=False)
            until = time.monotonic() + 2 * AT_ONCE_S
            while time.monotonic() < until:
                consumer.poll(100)
        finally:
            consumer.close()

    def write():
        producer = open_producer({**config, "transactional.id": f"id-{uuid.uuid4().hex}"}, client)
        try:
            producer.init_transactions(int(2 * AT_ONCE_S * 1000))
        finally:
            producer.close()

    for start in (read, write):
        began = time.monotonic()
        with pytest.raises(BadConfigurationError) as refused:
            start()
        assert time.monotonic() - began < AT_ONCE_S
        said = str(refused.value)
        assert "s3cr3t" not in said and "\n" not in said and "kafka.s" in said


@pytest.mark.parametrize("login", LOGINS)
def test_the_client_that_speaks_the_protocol_knows_every_login(servers, login):
    consumer = open_consumer(plain(login_of(servers, login)), "protocol")
    consumer.close()
    assert type(consumer).__name__ == "ProtocolConsumer"


def plain(settings):
    """Settings as the clients take them."""
    kafka = {name.removeprefix("kafka."): text for name, text in settings.items()}
    return ClientSettings.from_options(kafka, "consumer").librdkafka()


class Slowly:
    """Batches that come over a while, longer than tokens last."""

    def __init__(self, seconds):
        self._seconds = seconds
        self.sent = []

    def __iter__(self):
        until = time.monotonic() + self._seconds
        while time.monotonic() < until:
            self.sent.append(f"{len(self.sent):04}")
            yield rows(self.sent[-1])
            time.sleep(0.1)


@pytest.mark.exhaustive("tokens have to expire, several times")
@pytest.mark.parametrize("login", ["own", "oidc"])
def test_tokens_that_expire_in_a_transaction_lose_nothing(servers, client, login, tmp_path, identity):
    # Shorter ones let brokers end connections of librdkafka, which logs in again at 90 % of a session's life.
    identity.lasts_s = 3.0 if client == "protocol" else 15.0
    topic = servers.kafka.create_topic()
    before = identity.given
    query = sink_query(login_of(servers, login), tmp_path / "ck", topic=topic, client=client)
    slow = Slowly(10.0 if client == "protocol" else 20.0)
    query.run(0, [slow])
    assert identity.given - before >= 2
    assert [value.decode() for value in values_of(servers, topic)] == slow.sent


@pytest.mark.exhaustive("tokens have to expire, several times")
def test_a_provider_that_is_away_for_a_moment_is_waited_for(servers, client, identity):
    identity.lasts_s = 4.0
    topic = servers.kafka.create_topic()
    consumer, found, sent = open_consumer(plain(login_of(servers, "own")), client), [], 0
    began = time.monotonic()
    try:
        consumer.assign([PartitionRange(topic, 0, 0, 1_000_000)], headers=False)
        while (passed := time.monotonic() - began) < 12 or len(found) < sent:
            # Longer than a token lasts: the connection breaks, and nothing is lost.
            identity.is_away = 2 < passed < 9
            if passed < 12:
                servers.kafka.produce(topic, [b"%d" % sent])
                sent += 1
            assert passed < 40, (len(found), sent)
            with contextlib.suppress(RetriableError):
                found += [value for one in consumer.poll(200) for value in one.records["value"].to_pylist()]
    finally:
        consumer.close()
    assert found == [b"%d" % number for number in range(sent)]


def test_a_delegation_token_is_refused_before_librdkafka_gets_it(servers):
    with pytest.raises(BadConfigurationError, match=r"kafka\.sasl\.scram\.tokenauth' is known to client=protocol only"):
        source_query(login_of(servers, "delegation"), subscribe="t", client="librdkafka")


@pytest.mark.parametrize("login", ["SCRAM-SHA-512", "delegation", "oidc", "own", "azure", "google", "mtls"])
def test_the_page_shows_the_options_that_are_tried(servers, login):
    (block,) = re.findall(rf"<!-- login: {login} -->\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert re.findall(r'"(kafka[\w.]+)":', block) == list(login_of(servers, login))


def test_a_login_that_is_refused_does_not_end_another_that_connects_meanwhile(servers):
    right, wrong = (connection_settings(plain(login_of(servers, "PLAIN", right=each))) for each in (True, False))

    def connect(settings):
        connections = Connections(settings)
        try:
            connections.open(time.monotonic() + 10)
        except ProblemError as error:
            return error.problem.code
        finally:
            connections.close()
        return "connected"

    with ThreadPoolExecutor(8) as threads:
        said = list(threads.map(connect, [right, wrong] * 8))
    assert said == ["connected", "SASL_AUTHENTICATION_FAILED"] * 8
