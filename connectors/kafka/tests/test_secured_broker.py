"""A broker with TLS, passwords and ACLs: the settings in both spellings, the rights that the documentation lists."""

from __future__ import annotations

import ipaddress
import time
import uuid

import pyarrow as pa
import pytest
from cryptography import x509
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

import penstock_kafka.transactions._producers as producers
from authority import Authority
from penstock.dev import LocalServer, free_ports
from penstock.errors import BadConfigurationError, FatalError, PenstockError
from penstock.testing import SinkQuery, SourceQuery
from penstock_kafka import KafkaConnector
from penstock_kafka.client import PartitionRange, open_consumer
from penstock_kafka.client.broker import Coordinators
from penstock_kafka.client.consumer._channel import Channel
from penstock_kafka.dev import KafkaDevServer, KafkaToolbox

PASSWORDS = {"alice": "alice-s3cr3t", "bob": "bob-s3cr3t", "carol": "carol-s3cr3t"}
#: At the third listener. Kafka's default is never; brokers end connections that have not proved anew who they are, and
#: refuse those that do so within a second of the last time. librdkafka does it early.
REAUTHENTICATE_MS = 2_000
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string())])

Op, Kind, Pattern = ACLOperation, ResourceType, ACLResourcePatternType


class Secured:
    """``address`` is the secured listener, ``brief`` one that wants to know again who is there. The first one is for
    the administrator, who may do everything.
    """

    def __init__(self, folder, server, port, brief):
        self.folder, self.address, self.brief = folder, f"127.0.0.1:{port}", f"127.0.0.1:{brief}"
        self.kafka = KafkaToolbox(server.address)

    def allow(self, user, kind, name, *operations, pattern=Pattern.LITERAL):
        admin = KafkaAdminClient(bootstrap_servers=self.kafka.address)
        try:
            resource = ResourcePattern(kind, name, pattern)
            rules = [ACL(f"User:{user}", "*", one, ACLPermissionType.ALLOW, resource) for one in operations]
            result = admin.create_acls(rules)
            assert not result["failed"], result
        finally:
            admin.close()

    def settings(self, user, spelling="librdkafka", password=None):
        """What a user writes. Java's spelling is what a job with Spark's own connector has."""
        password = password or PASSWORDS[user]
        if spelling == "java":
            module = "org.apache.kafka.common.security.plain.PlainLoginModule"
            more = {
                "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
                "ssl.truststore.location": str(self.folder / "ca.pem"),
                "ssl.truststore.type": "PEM",
            }
        else:
            more = {"sasl.username": user, "sasl.password": password, "ssl.ca.location": str(self.folder / "ca.pem")}
        protocol = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
        return {f"kafka.{name}": text for name, text in {"bootstrap.servers": self.address, **protocol, **more}.items()}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority("test authority")
    authority.write(folder / "ca.pem")
    authority.issue(folder / "broker.pem", x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    port, controller, secure, brief = free_ports(4)
    users = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    listeners = f"PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure},BRIEF://127.0.0.1:{brief}"
    properties = {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL,BRIEF:SASL_SSL",
        "listener.name.brief.plain.connections.max.reauth.ms": str(REAUTHENTICATE_MS),
    }
    for name in ("secure", "brief"):
        properties |= {
            f"listener.name.{name}.sasl.enabled.mechanisms": "PLAIN",
            f"listener.name.{name}.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            ),
            f"listener.name.{name}.ssl.keystore.location": str(folder / "broker.pem"),
            f"listener.name.{name}.ssl.keystore.type": "PEM",
        }
    properties |= {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    server = LocalServer(KafkaDevServer(properties, quick_start=True), folder / "kafka", ports=(port, controller))
    with server:
        made = Secured(folder, server, secure, brief)
        prefix = {"pattern": Pattern.PREFIXED}
        # As docs/production/rights.md lists them.
        made.allow("alice", Kind.TOPIC, "in-", Op.DESCRIBE, Op.READ, **prefix)
        made.allow("alice", Kind.GROUP, "spark-kafka-source", Op.DESCRIBE, **prefix)
        made.allow("alice", Kind.TOPIC, "out-", Op.DESCRIBE, Op.WRITE, Op.READ, **prefix)
        made.allow("alice", Kind.TRANSACTIONAL_ID, "penstock.", Op.DESCRIBE, Op.WRITE, **prefix)
        made.allow("alice", Kind.GROUP, "penstock.", Op.DESCRIBE, Op.READ, **prefix)
        yield made


@pytest.fixture
def impatient(monkeypatch):
    """Refusals are told when a first connection is given up; until then it is tried again."""
    monkeypatch.setattr("penstock_kafka.client.broker._pool._FIRST_CONNECT_MS", 1_000)


def source_query(settings, **options):
    parsed = KafkaConnector.source_options.parse({**settings, **options}, owner="source penstock.kafka")
    source = KafkaConnector().create_source(parsed)
    return SourceQuery(source, source.fixed_schema())


def sink_query(settings, checkpoint, **options):
    parsed = KafkaConnector.sink_options.parse({**settings, **options}, owner="sink penstock.kafka")
    return SinkQuery(KafkaConnector().create_sink(parsed, SCHEMA), SCHEMA, checkpoint)


def rows(*values):
    return pa.record_batch([[f"k{value}" for value in values], list(values)], schema=SCHEMA)


def topic_of(secured, kind, **more):
    return secured.kafka.create_topic(f"{kind}-{uuid.uuid4().hex[:8]}", **more)


only_native_by_default = pytest.mark.parametrize(
    "client",
    [
        "protocol",
        pytest.param("librdkafka", marks=pytest.mark.exhaustive("librdkafka's own affair")),
    ],
    indirect=True,
)

#: Each client, and each spelling.
CLIENTS_AND_SPELLINGS = pytest.mark.parametrize(
    ("client", "spelling"),
    [
        ("protocol", "librdkafka"),
        ("librdkafka", "java"),
        pytest.param("protocol", "java", marks=pytest.mark.exhaustive("the other pairs of client and spelling")),
        pytest.param(
            "librdkafka", "librdkafka", marks=pytest.mark.exhaustive("the other pairs of client and spelling")
        ),
    ],
    indirect=["client"],
)


@CLIENTS_AND_SPELLINGS
def test_reading_with_the_rights_that_are_listed(secured, client, spelling):
    topic = topic_of(secured, "in", partitions=2)
    secured.kafka.produce(topic, [b"a", b"b", b"c"])
    settings = secured.settings("alice", spelling)
    query = source_query(settings, subscribe=topic, startingOffsets="earliest", client=client)
    try:
        assert sorted(row["value"] for row in query.read_all_now()) == [b"a", b"b", b"c"]
        assert sorted(row["value"] for row in query.run_batch()) == [b"a", b"b", b"c"]
    finally:
        query.stop()


@only_native_by_default
def test_a_broker_that_wants_to_know_again_who_reads(secured, client, monkeypatch):
    topic = topic_of(secured, "in")
    made, new_connection = [], Channel.new_connection
    monkeypatch.setattr(Channel, "new_connection", lambda *given: made.append(new_connection(*given)) or made[-1])
    settings = {name.removeprefix("kafka."): text for name, text in secured.settings("alice").items()}
    consumer, found, sent = open_consumer({**settings, "bootstrap.servers": secured.brief}, client), [], 0
    # librdkafka does not tell when it has done so.
    until = time.monotonic() + 3 * REAUTHENTICATE_MS / 1000

    def is_going_on():
        return len(made) < 3 if client == "protocol" else time.monotonic() < until

    try:
        consumer.assign([PartitionRange(topic, 0, 0, 1_000_000)], headers=False)
        while is_going_on() or len(found) < sent:
            if is_going_on():
                secured.kafka.produce(topic, [b"%d" % sent])
                sent += 1
            found += [value for one in consumer.poll(200) for value in one.records["value"].to_pylist()]
    finally:
        consumer.close()
    assert found == [b"%d" % number for number in range(sent)]
    if client == "protocol":
        # Opened in time: a broker that has to end one is not asked over it again.
        assert all(link.is_proven for link in made[:-1])


@CLIENTS_AND_SPELLINGS
def test_writing_exactly_once_with_the_rights_that_are_listed(secured, client, spelling, tmp_path):
    topic = topic_of(secured, "out", partitions=2)
    settings = secured.settings("alice", spelling)
    query = sink_query(settings, tmp_path / "ck", topic=topic, delivery="exactly-once", client=client)
    query.tasks(0, [[rows("lost")]])  # a crash: left open, found and aborted
    query.restart()
    query.run_all([[[rows("a", "b")], [rows("c")]], [[rows("d")]]])
    assert sorted(record.value for record in secured.kafka.read(topic)) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_writing_without_rights_is_refused(secured, client, tmp_path, delivery):
    topic = topic_of(secured, "out")

    def write():
        options = {"topic": topic, "delivery": delivery, "client": client}
        sink_query(secured.settings("bob"), tmp_path / "ck", **options).run(0, [[rows("a")]])

    with pytest.raises(FatalError, match=r"(?i)authoriz") as refused:
        write()
    assert "s3cr3t" not in str(refused.value)
    assert secured.kafka.read(topic, "read_uncommitted") == []


def test_reading_without_rights_is_refused(secured, client):
    topic = topic_of(secured, "in")
    secured.kafka.produce(topic, [b"a"])
    with pytest.raises(PenstockError, match=r"(?i)authoriz|not exist") as refused:
        source_query(secured.settings("bob"), subscribe=topic, startingOffsets="earliest", client=client).read_all_now()
    assert "s3cr3t" not in str(refused.value)


@only_native_by_default
def test_a_wrong_password_is_said_and_not_shown(secured, client, tmp_path, impatient):
    topic = topic_of(secured, "in")
    settings = secured.settings("alice", password="wr0ng-s3cr3t")
    with pytest.raises(BadConfigurationError, match=r"(?i)authentic") as refused:
        source_query(settings, subscribe=topic, client=client).read_all_now()
    assert "s3cr3t" not in str(refused.value)
    with pytest.raises(BadConfigurationError, match=r"(?i)authentic") as refused:
        sink_query(settings, tmp_path / "ck", topic=topic, delivery="exactly-once", client=client).run(0, [[rows("a")]])
    assert "s3cr3t" not in str(refused.value)


@only_native_by_default
def test_a_broker_that_is_not_trusted_is_refused(secured, client, tmp_path, impatient):
    settings = secured.settings("alice")
    del settings["kafka.ssl.ca.location"]
    with pytest.raises(PenstockError, match=r"(?i)certificate|ssl|verif"):
        sink_query(settings, tmp_path / "ck", topic="out-x", delivery="exactly-once", client=client).run(
            0, [[rows("a")]]
        )


#: What each use needs, as docs/production/rights.md lists it. Read and Write bring Describe along. ``{topic}`` is the
#: topic, ``{group}`` a group of the user's choice; other names are prefixes.
RIGHTS = {
    "reading": {(Kind.TOPIC, "{topic}", Op.READ)},
    "starting at a group's offsets": {(Kind.TOPIC, "{topic}", Op.READ), (Kind.GROUP, "{group}", Op.DESCRIBE)},
    "committing a group's offsets": {(Kind.TOPIC, "{topic}", Op.READ), (Kind.GROUP, "{group}", Op.READ)},
    "writing at least once": {(Kind.TOPIC, "{topic}", Op.WRITE)},
    "writing exactly once": {
        (Kind.TOPIC, "{topic}", Op.WRITE),
        (Kind.TOPIC, "{topic}", Op.READ),
        (Kind.TRANSACTIONAL_ID, "penstock.", Op.WRITE),
        (Kind.GROUP, "penstock.", Op.READ),
    },
}


class Use:
    """What carol does, on a topic and with a group of its own. Raises what she is told."""

    def __init__(self, secured, folder, client):
        self.secured, self.folder, self.client = secured, folder, client
        self.topic, self.group = topic_of(secured, "own"), f"group-{uuid.uuid4().hex[:8]}"
        self.settings = secured.settings("carol")

    def allow(self, rights):
        """Gives carol these rights, and no others."""
        admin = KafkaAdminClient(bootstrap_servers=self.secured.kafka.address)
        every = ResourcePatternFilter(Kind.ANY, None, Pattern.ANY)
        hers = ACLFilter("User:carol", "*", Op.ANY, ACLPermissionType.ANY, every)
        rules = []
        for kind, name, operation in rights:
            pattern = Pattern.LITERAL if "{" in name else Pattern.PREFIXED
            resource = ResourcePattern(kind, name.format(topic=self.topic, group=self.group), pattern)
            rules.append(ACL("User:carol", "*", operation, ACLPermissionType.ALLOW, resource))
        try:
            admin.delete_acls([hers])
            admin.create_acls(rules)
            # The broker learns of them from the controller.
            while len(admin.describe_acls(hers)[0]) != len(rules):
                time.sleep(0.02)
        finally:
            admin.close()

    def do(self, name):
        if "writing" in name:
            delivery = "exactly-once" if "exactly" in name else "at-least-once"
            given = {"topic": self.topic, "delivery": delivery, "client": self.client, "retryTimeout": "1s"}
            sink_query(self.settings, self.folder / uuid.uuid4().hex, **given).run(0, [[rows("a")]])
            return
        more = {"startingOffsets": "earliest"}
        if "starting" in name:
            more = {
                "startingOffsets": "group-offsets",
                "groupOffsetsFallback": "earliest",
                "kafka.group.id": self.group,
            }
        if "committing" in name:
            more["commitGroupOffsets"] = self.group
        query = source_query(
            self.settings, subscribe=self.topic, client=self.client, retryTimeout="1s", failOnDataLoss="true", **more
        )
        try:
            self.secured.kafka.produce(self.topic, [b"x"])
            assert query.run_batch()
            query.run_batch()  # the first one is committed
        finally:
            query.stop()
        if "committing" in name:
            coordinators = Coordinators({"bootstrap.servers": self.secured.kafka.address})
            if not coordinators.proofs([self.group]):
                raise PenstockError("nothing was committed: is it not authorized?")  # the query only warns of it
            coordinators.close()


@only_native_by_default
@pytest.mark.parametrize("name", RIGHTS)
def test_each_use_with_exactly_the_rights_that_are_listed(secured, client, tmp_path, name):
    use = Use(secured, tmp_path, client)
    use.allow(RIGHTS[name])
    use.do(name)


@only_native_by_default
def test_the_rights_of_exactly_once_suffice_where_transactions_are_not_listed(secured, client, tmp_path, lacking):
    """What a crash has left open is then found by the groups of its proofs, which Read on groups lists."""
    lacking("ListTransactions")
    use = Use(secured, tmp_path, client)
    use.allow(RIGHTS["writing exactly once"])
    query = sink_query(use.settings, tmp_path / "ck", topic=use.topic, delivery="exactly-once", client=client)
    query.tasks(0, [[rows("lost")]])
    query.restart()
    query.run_all([[[rows("a")]], [[rows("b")]]])
    assert [record.value for record in secured.kafka.read(use.topic)] == [b"a", b"b"]


@pytest.mark.exhaustive("each right taken away; the test before is the witness that they suffice")
@pytest.mark.parametrize("name", RIGHTS)
def test_none_of_these_rights_is_listed_in_vain(secured, tmp_path, name):
    use = Use(secured, tmp_path, "protocol")
    for right in sorted(RIGHTS[name], key=str):
        use.allow(RIGHTS[name] - {right})
        with pytest.raises(PenstockError, match=r"(?i)authoriz|not exist") as refused:
            use.do(name)
        assert "s3cr3t" not in str(refused.value)
        producers._pools.clear()
