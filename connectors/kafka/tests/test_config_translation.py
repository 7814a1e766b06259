"""Client settings of the Java client and of librdkafka, held against the libraries themselves."""

from __future__ import annotations

import pickle
import warnings

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from penstock.errors import BadConfigurationError
from penstock_kafka.client import open_consumer, open_producer
from penstock_kafka.client.consumer import FetchSettings
from penstock_kafka.config import ClientSettings, report_without_effect
from penstock_kafka.config._librdkafka import ALIASES, CHOICES, PROPERTIES

#: Every setting of the Java client 4.3, by what has to become of it.
SAME = """
    acks allow.auto.create.topics batch.size bootstrap.servers check.crcs client.dns.lookup client.id client.rack
    compression.type connections.max.idle.ms delivery.timeout.ms enable.idempotence enable.metrics.push
    fetch.max.bytes fetch.min.bytes group.id isolation.level linger.ms max.in.flight.requests.per.connection
    max.partition.fetch.bytes metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    reconnect.backoff.max.ms reconnect.backoff.ms retries retry.backoff.max.ms retry.backoff.ms
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.mechanism
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.scope sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url security.protocol
    socket.connection.setup.timeout.ms ssl.cipher.suites ssl.endpoint.identification.algorithm ssl.key.password
"""
TRANSLATED = {
    "buffer.memory": {"queue.buffering.max.kbytes": "6"},
    "fetch.max.wait.ms": {"fetch.wait.max.ms": "7000"},
    "max.request.size": {"message.max.bytes": "7000"},
    "metadata.max.age.ms": {"topic.metadata.refresh.interval.ms": "7000"},
    "receive.buffer.bytes": {"socket.receive.buffer.bytes": "7000"},
    "request.timeout.ms": {"request.timeout.ms": "7000", "socket.timeout.ms": "7000"},
    "sasl.jaas.config": {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"},
    "sasl.kerberos.kinit.cmd": {
        "sasl.kerberos.kinit.cmd": '7000 -R -t "%{sasl.kerberos.keytab}" -k %{sasl.kerberos.principal} || '
        '7000 -t "%{sasl.kerberos.keytab}" -k %{sasl.kerberos.principal}'
    },
    "sasl.oauthbearer.assertion.template.file": {"sasl.oauthbearer.assertion.jwt.template.file": "7000"},
    "sasl.oauthbearer.client.credentials.client.id": {"sasl.oauthbearer.client.id": "7000"},
    "sasl.oauthbearer.client.credentials.client.secret": {"sasl.oauthbearer.client.secret": "7000"},
    "send.buffer.bytes": {"socket.send.buffer.bytes": "7000"},
    "ssl.keystore.certificate.chain": {
        "ssl.certificate.pem": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    },
    "ssl.keystore.key": {"ssl.key.pem": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"},
    "ssl.truststore.certificates": {"ssl.ca.pem": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
}
IGNORED = """
    auto.commit.interval.ms compression.gzip.level compression.lz4.level compression.zstd.level
    default.api.timeout.ms exclude.internal.topics group.instance.id group.protocol group.remote.assignor
    heartbeat.interval.ms internal.throw.on.fetch.stable.offset.unsupported max.block.ms max.poll.interval.ms
    max.poll.records metadata.max.idle.ms metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms partition.assignment.strategy partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope.claim.name
    session.timeout.ms share.acknowledgement.mode share.acquire.mode socket.connection.setup.timeout.max.ms
    ssl.keymanager.algorithm ssl.keystore.password ssl.keystore.type ssl.secure.random.implementation
    ssl.trustmanager.algorithm ssl.truststore.password ssl.truststore.type
"""
#: With a word of the advice.
REFUSED = {
    "auto.offset.reset": "startingOffsets",
    "bootstrap.controllers": "bootstrap.servers",
    "config.providers": "in your job",
    "enable.auto.commit": "commitGroupOffsets",
    "interceptor.classes": "columns of the DataFrame",
    "key.deserializer": "key.format",
    "key.serializer": "key.format",
    "partitioner.class": "option 'partitioner'",
    "partitioner.ignore.keys": "round-robin",
    "sasl.client.callback.handler.class": "sasl.oauthbearer.method=oidc",
    "sasl.login.callback.handler.class": "sasl.oauthbearer.method=oidc",
    "sasl.login.class": "sasl.oauthbearer.method=oidc",
    "sasl.oauthbearer.header.urlencode": "leave it out",
    "sasl.oauthbearer.jwt.retriever.class": "sasl.oauthbearer.method=oidc",
    "security.providers": "ssl.providers",
    "ssl.enabled.protocols": "MinProtocol",
    "ssl.engine.factory.class": "ssl.ca.location",
    "ssl.keystore.location": "keytool -importkeystore -srckeystore '/a/b.jks' -destkeystore '/a/b.p12'",
    "ssl.protocol": "MinProtocol",
    "ssl.provider": "ssl.providers",
    "ssl.truststore.location": "openssl pkcs12 -in '/a/b.p12' -nokeys -out '/a/b-ca.pem'",
    "transaction.timeout.ms": "transactionTimeout",
    "transaction.two.phase.commit.enable": "exactly-once",
    "transactional.id": "transactionalIdPrefix",
    "value.deserializer": "value.format",
    "value.serializer": "value.format",
}
CONSUMER = """
    allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs client.rack default.api.timeout.ms
    enable.auto.commit exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id
    group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer max.partition.fetch.bytes
    max.poll.interval.ms max.poll.records partition.assignment.strategy session.timeout.ms
    share.acknowledgement.mode share.acquire.mode value.deserializer
"""
SPECIAL_VALUES = {
    "acks": "all",
    "bootstrap.servers": "h:1",
    "client.dns.lookup": "use_all_dns_ips",
    "compression.type": "gzip",
    "isolation.level": "READ_UNCOMMITTED",
    "metadata.recovery.strategy": "REBOOTSTRAP",
    "sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";',
    "sasl.mechanism": "PLAIN",
    "sasl.oauthbearer.assertion.algorithm": "RS256",
    "sasl.oauthbearer.token.endpoint.url": "https://h/token",
    "security.protocol": "SSL",
    "ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384:AES128-SHA256",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE----- AA AA -----END CERTIFICATE-----",
    "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\\nAAAA\\n-----END PRIVATE KEY-----",
    "ssl.keystore.location": "/a/b.jks",
    "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
    "ssl.truststore.location": "/a/b.jks",
    "max.in.flight.requests.per.connection": "5",
    "fetch.max.bytes": "7000000",
    "partitioner.ignore.keys": "true",
    "sasl.oauthbearer.header.urlencode": "true",
    "transaction.two.phase.commit.enable": "true",
}
SWITCHES = ("allow", "check", "enable", "exclude", "internal", "sasl.oauthbearer.assertion.claim.jti")
#: What is set here for a login or for TLS is set without a protocol that has them; a test of its own looks at that.
WITHOUT_PROTOCOL = "without an effect unless kafka.security.protocol is"
BROKERS = {"bootstrap.servers": "h:1"}


def check(client: ClientSettings) -> None:
    """Has librdkafka look at every value."""
    opening = open_consumer if client.role == "consumer" else open_producer
    opening(client.librdkafka(), "librdkafka").close()


def translated(given, role="consumer"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = ClientSettings.from_options({**BROKERS, **given}, role).librdkafka()
    if "bootstrap.servers" not in given:
        del found["bootstrap.servers"]
    # Not what Python says, at any time, of sockets that another test's clients left to it.
    said = [str(warning.message) for warning in caught if warning.category is not ResourceWarning]
    return found, [text for text in said if WITHOUT_PROTOCOL not in text]


def value_of(name):
    return SPECIAL_VALUES.get(name, "true" if name.startswith(SWITCHES) else "7000")


def role_of(name):
    return "consumer" if name in CONSUMER.split() else "producer"


def real_client(role, settings):
    if role == "consumer":
        Consumer({"group.id": "t", **settings}).close()
    else:
        Producer(settings)


@pytest.mark.parametrize("name", SAME.split())
def test_same_name_same_value(name):
    value = value_of(name)
    found, said = translated({name: value}, role_of(name))
    assert (found, said) == ({name: value}, [])
    if not name.startswith("sasl.oauthbearer.assertion") and name != "ssl.key.password":
        real_client(role_of(name), found)


@pytest.mark.parametrize("name", TRANSLATED)
def test_other_name_or_unit(name):
    found, said = translated({name: value_of(name)}, role_of(name))
    assert (found, said) == (TRANSLATED[name], [])
    if not name.startswith(("ssl.", "sasl.oauthbearer.assertion")):
        real_client(role_of(name), found)


@pytest.mark.parametrize("name", IGNORED.split())
def test_left_out_with_a_warning(name):
    found, said = translated({name: value_of(name)}, role_of(name))
    assert found == {}
    assert said == [f"settings without an effect on the {role_of(name)} of penstock.kafka: kafka.{name}"]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("role", ["consumer", "producer", "admin"])
def test_refused_with_advice(name, role):
    with pytest.raises(BadConfigurationError) as caught:
        translated({name: value_of(name)}, role)
    assert f"'kafka.{name}'" in str(caught.value) and REFUSED[name] in str(caught.value)


def test_one_warning_names_all_and_the_admin_client_is_silent():
    given = {"metric.reporters": "a", "Max.Poll.Records": "5", "acks": "all"}
    assert translated(given)[1] == [
        "settings without an effect on the consumer of penstock.kafka: kafka.acks, kafka.max.poll.records, "
        "kafka.metric.reporters"
    ]
    assert translated({**given, "fetch.min.bytes": "1", "client.id": "x"}, "admin") == ({"client.id": "x"}, [])


def test_every_property_that_we_know_is_known_to_the_library():
    # An older library than the table's knows fewer; the wheel that the tests run with is not older.
    for name, role in PROPERTIES.items():
        if name.endswith("_cb") or name in ("opaque", "default_topic_conf", "interceptors"):
            continue
        said = ""
        try:
            real_client("consumer" if role == "consumer" else "producer", {name: "\x01"})
        except (KafkaException, ValueError, TypeError) as error:
            said = str(error)
        assert "No such configuration property" not in said, name


def test_aliases_are_one_setting():
    for alias, name in ALIASES.items():
        assert PROPERTIES[alias] in ("*", PROPERTIES[name])
    assert translated({"fetch.message.max.bytes": "9"})[0] == {"max.partition.fetch.bytes": "9"}
    assert translated({"linger.ms": "9", "queue.buffering.max.ms": "9"}, "producer")[0] == {"linger.ms": "9"}
    for given in (
        {"linger.ms": "8", "queue.buffering.max.ms": "9"},
        {"fetch.max.wait.ms": "8", "fetch.wait.max.ms": "9"},
    ):
        with pytest.raises(BadConfigurationError, match="are the same setting with two values"):
            translated(given)


@pytest.mark.parametrize(
    ("given", "role", "expected"),
    [
        ({"request.timeout.ms": "7000", "socket.timeout.ms": "9000"}, "producer",
         {"request.timeout.ms": "7000", "socket.timeout.ms": "9000"}),
        ({"request.timeout.ms": "7000"}, "consumer", {"socket.timeout.ms": "7000"}),
        ({"metadata.max.age.ms": "7000", "topic.metadata.refresh.interval.ms": "9000"}, "consumer",
         {"metadata.max.age.ms": "7000", "topic.metadata.refresh.interval.ms": "9000"}),
        ({"receive.buffer.bytes": "-1"}, "consumer", {"socket.receive.buffer.bytes": "0"}),
        ({"buffer.memory": "100"}, "producer", {"queue.buffering.max.kbytes": "1"}),
        ({"batch.size": "0"}, "producer", {"batch.size": "1"}),
        ({"compression.type": "zstd", "compression.zstd.level": "7", "compression.gzip.level": "9"}, "producer",
         {"compression.type": "zstd", "compression.level": "7"}),
        ({"ssl.endpoint.identification.algorithm": ""}, "consumer", {"ssl.endpoint.identification.algorithm": "none"}),
        ({"ssl.endpoint.identification.algorithm": "HTTPS"}, "consumer",
         {"ssl.endpoint.identification.algorithm": "https"}),
        ({"ssl.enabled.protocols": "TLSv1.2,TLSv1.3", "ssl.protocol": "TLSv1.3"}, "admin", {}),
        ({"FETCH.Min.Bytes": " 5 "}, "consumer", {"fetch.min.bytes": "5"}),
    ],
)  # fmt: skip
def test_translation_looks_at_other_settings_and_odd_values(given, role, expected):
    assert translated(given, role)[0] == expected
    real_client(role, expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}, "OpenSSL's names separated by colons"),
        ({"request.timeout.ms": "600000"}, "'kafka.request.timeout.ms' may be 300000 at most"),
        ({"request.timeout.ms": "soon"}, "needs a whole number"),
        ({"compression.type": "zstd", "compression.zstd.level": "20"}, "may be 12 at most"),
        ({"exclude.internal.topics": "false"}, "name the internal topics"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "MinProtocol"),
        ({"sasl.pasword": "hunter2"}, "'kafka.sasl.pasword' is known neither to the Java client nor to librdkafka; did "
         "you mean 'kafka.sasl.password'?"),
        ({"config.providers.file.class": "x"}, "look the values up in your job"),
        ({"enable.auto.offset.store": "true"}, "commitGroupOffsets"),
        ({"enable.partition.eof": "false"}, "set by the connector"),
        ({"queuing.strategy": "lifo"}, "order of records"),
        ({"partitioner": "random"}, "option 'partitioner' without 'kafka.'"),
        ({"topic.blacklist": "a"}, "would hide topics"),
        ({"dr_cb": "f"}, "leave it out"),
        ({"plugin.library.paths": "/x.so"}, "leave it out"),
        ({"bootstrap.servers": ""}, "must name the brokers"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://u:hunter2@h/"}, "must not hold credentials"),
    ],
)  # fmt: skip
def test_refused_values(given, message):
    with pytest.raises(BadConfigurationError) as caught:
        translated(given, "producer")
    assert message in str(caught.value) and "hunter2" not in str(caught.value)


def test_brokers_are_needed():
    with pytest.raises(BadConfigurationError, match=r"'kafka\.bootstrap\.servers' must name the brokers"):
        ClientSettings.from_options({}, "consumer")
    assert ClientSettings.from_options({"metadata.broker.list": "h:1"}, "admin").librdkafka() == BROKERS


def test_values_are_checked_by_the_library():
    good = ClientSettings.from_options({**BROKERS, "fetch.min.bytes": "5"}, "consumer")
    check(good)
    assert pickle.loads(pickle.dumps(good)) == good
    bad = ClientSettings.from_options(
        {**BROKERS, "queued.min.messages": "many", "sasl.password": "hunter2"}, "consumer"
    )
    with pytest.raises(BadConfigurationError, match=r"setting 'queued\.min\.messages'"):
        check(bad)
    kerberos = {**BROKERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
    try:
        real_client("producer", {**kerberos, "sasl.kerberos.kinit.cmd": ""})
    except KafkaException:
        with pytest.raises(BadConfigurationError, match="no-binary confluent-kafka"):
            check(ClientSettings.from_options(kerberos, "producer"))


@pytest.mark.parametrize(
    ("role", "client", "said"),
    [
        ("consumer", "auto", ["no effect unless client=librdkafka: kafka.check.crcs, kafka.linger.ms"]),
        ("producer", "protocol", ["no effect unless client=librdkafka: kafka.linger.ms"]),
        ("producer", "librdkafka", []),
    ],
)
def test_settings_that_only_librdkafka_uses_are_said_once(caplog, monkeypatch, role, client, said):
    monkeypatch.setattr("penstock_kafka.config._without_effect._reported", set())
    given = {"linger.ms": "5", "check.crcs": "true", "client.rack": "a", "bootstrap.servers": "h:1"}
    for _ in range(2):
        report_without_effect(given, role, client)
    assert [record.getMessage() for record in caplog.records] == said


def test_a_client_that_is_named_is_not_replaced_without_a_word(caplog):
    for asked_for in (False, True):
        assert FetchSettings.of({"bootstrap.servers": "h:1", "debug": "all"}, asked_for=asked_for) is None
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.getMessage() == "librdkafka is used, which alone knows debug, and is slower"


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in CHOICES.items() for value in (*values, "neither")]
)
def test_choices_are_those_of_librdkafka(name, value):
    role = "consumer" if PROPERTIES[name] == "consumer" else "producer"
    make = Consumer if role == "consumer" else Producer
    own = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"} if role == "consumer" else {}
    given = {"bootstrap.servers": "127.0.0.1:1", name: value}
    if value != "neither":
        assert dict(ClientSettings.from_options(given, role).settings)[name] == value
        make({**own, **given, "log_level": 0, "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"})
        return
    with pytest.raises(BadConfigurationError, match=rf"option 'kafka\.{name}' takes one of .*, not 'neither'"):
        ClientSettings.from_options(given, role)
    with pytest.raises(KafkaException):
        make({**own, **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"sasl.username": "u", "sasl.password": "p"},
            "SASL_SSL or SASL_PLAINTEXT: kafka.sasl.password, kafka.sasl.username",
        ),
        ({"sasl.mechanism": "plain", "security.protocol": "ssl"}, "SASL_SSL or SASL_PLAINTEXT: kafka.sasl.mechanism"),
        ({"ssl.ca.location": "/ca.pem"}, "SSL or SASL_SSL: kafka.ssl.ca.location"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "ssl.key.password": "p", "sasl.kerberos.keytab": "/k"},
            "SSL or SASL_SSL: kafka.ssl.key.password",
        ),
        ({"security.protocol": "SASL_SSL", "ssl.key.password": "p", "sasl.kerberos.keytab": "/k"}, None),
    ],
)
def test_settings_of_a_login_or_of_tls_say_which_protocol_they_need(given, said):
    for role in ("consumer", "producer"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ClientSettings.from_options({**BROKERS, **given}, role)
        texts = [str(one.message) for one in caught if WITHOUT_PROTOCOL in str(one.message)]
        assert texts == ([] if said is None else [f"settings {WITHOUT_PROTOCOL} {said}"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sasl.mechanism": "PLIAN"}, "'kafka.sasl.mechanism' takes one of GSSAPI, OAUTHBEARER, PLAIN, SCRAM-SHA-256"),
        ({"sasl.mechanism": "SCRAM-SHA256"}, "not 'SCRAM-SHA256'; did you mean 'SCRAM-SHA-256'?"),
        ({"sasl.mechanisms": "none"}, "not 'none'"),
        ({"sasl.mechanism": "PLAIN", "sasl.password": "p"}, "'kafka.sasl.username' is missing: PLAIN needs it"),
        ({"sasl.mechanism": "scram-sha-512", "sasl.username": "u"}, "'kafka.sasl.password' is missing: SCRAM-SHA-512"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "", "sasl.password": "p"}, "'kafka.sasl.username' is missing"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "is OAUTHBEARER, which needs tokens: write"),
    ],
)
@pytest.mark.parametrize("role", ["consumer", "producer", "admin"])
def test_a_login_that_can_not_be_is_refused_without_a_broker(given, said, role):
    with pytest.raises(BadConfigurationError) as caught:
        ClientSettings.from_options({**BROKERS, "security.protocol": "SASL_SSL", **given}, role)
    assert said in str(caught.value)


@pytest.mark.parametrize("spelled", ["plain", "PLAIN", " Plain "])
def test_a_mechanism_is_passed_on_as_brokers_spell_it(spelled):
    given = {"sasl.mechanism": spelled, "sasl.username": "u", "sasl.password": "p", "security.protocol": "SASL_SSL"}
    settings = ClientSettings.from_options({**BROKERS, **given}, "consumer").librdkafka()
    assert settings["sasl.mechanism"] == "PLAIN"
    real_client("consumer", settings)
