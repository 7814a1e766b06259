"""Kerberos (GSSAPI) against a real KDC and a broker that trusts it."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pyarrow as pa
import pytest

import kdc
from penstock.dev import LocalServer, free_ports
from penstock.errors import BadConfigurationError
from penstock.testing import SinkQuery, SourceQuery
from penstock_kafka import KafkaConnector
from penstock_kafka.dev import KafkaDevServer, KafkaToolbox

pytest.importorskip("gssapi", reason="pip install 'penstock-kafka[kerberos]', which needs libkrb5-dev and a compiler")
pytestmark = [
    pytest.mark.skipif(not kdc.is_installed(), reason="no KDC: apt-get install krb5-kdc krb5-admin-server"),
    pytest.mark.exhaustive("a KDC and a broker of its own"),
]
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string())])


class Realm:
    def __init__(self, server, address, center):
        self.kafka, self.address, self.center = KafkaToolbox(server.address), address, center
        self.keytabs = {name: center.keytab(name) for name in ("alice", "mallory")}
        center.change_key("mallory")

    def settings(self, user="alice", **more):
        return {
            "kafka.bootstrap.servers": self.address,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "GSSAPI",
            "kafka.sasl.kerberos.principal": f"{user}@{kdc.REALM}",
            "kafka.sasl.kerberos.keytab": str(self.keytabs[user]),
            **more,
        }


@pytest.fixture(scope="module")
def realm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kerberos")
    with kdc.Kdc(folder / "kdc") as center, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(center.config))
        patch.setenv("KRB5CCNAME", f"FILE:{folder}/cc")
        keytab = center.keytab("kafka/localhost")
        port, controller, login = free_ports(3)
        ours = f"PLAINTEXT://127.0.0.1:{port},LOGIN"
        module = "com.sun.security.auth.module.Krb5LoginModule"
        properties = {
            "listeners": f"{ours}://127.0.0.1:{login},CONTROLLER://127.0.0.1:{controller}",
            # Tickets are for names.
            "advertised.listeners": f"{ours}://localhost:{login}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
            "listener.name.login.sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.login.sasl.kerberos.service.name": "kafka",
            "listener.name.login.gssapi.sasl.jaas.config": (
                f'{module} required useKeyTab=true storeKey=true keyTab="{keytab}" '
                f'principal="kafka/localhost@{kdc.REALM}";'
            ),
        }
        before = os.environ.get("PENSTOCK_DEV_JAVA_OPTIONS", "")
        patch.setenv("PENSTOCK_DEV_JAVA_OPTIONS", f"{before} -Djava.security.krb5.conf={center.config}")
        broker = KafkaDevServer(properties, quick_start=True)
        with LocalServer(broker, folder / "kafka", ports=(port, controller)) as server:
            yield Realm(server, f"localhost:{login}", center)


def sink_query(settings, checkpoint, **options):
    given = {"delivery": "exactly-once", "client": "protocol", **settings, **options}
    parsed = KafkaConnector.sink_options.parse(given, owner="sink penstock.kafka")
    return SinkQuery(KafkaConnector().create_sink(parsed, SCHEMA), SCHEMA, checkpoint)


def source_query(settings, **options):
    parsed = KafkaConnector.source_options.parse({**settings, **options}, owner="source penstock.kafka")
    source = KafkaConnector().create_source(parsed)
    return SourceQuery(source, source.fixed_schema())


def rows(*values):
    return pa.record_batch([[f"k{value}" for value in values], list(values)], schema=SCHEMA)


@pytest.mark.parametrize("spelling", ["librdkafka", "java"])
def test_a_key_tab_reads_and_writes(realm, spelling, tmp_path):
    settings = realm.settings()
    if spelling == "java":
        keytab, principal = (settings.pop(f"kafka.sasl.kerberos.{name}") for name in ("keytab", "principal"))
        module = "com.sun.security.auth.module.Krb5LoginModule"
        settings["kafka.sasl.jaas.config"] = (
            f'{module} required useKeyTab=true keyTab="{keytab}" principal="{principal}" serviceName="kafka";'
        )
    topic = realm.kafka.create_topic()
    sink_query(settings, tmp_path / "ck", topic=topic).run_all([[[rows("a", "b")]], [[rows("c")]]])
    assert sorted(record.value for record in realm.kafka.read(topic)) == [b"a", b"b", b"c"]
    query = source_query(settings, subscribe=topic, startingOffsets="earliest", client="protocol")
    try:
        assert sorted(row["value"] for row in query.read_all_now()) == [b"a", b"b", b"c"]
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"user": "mallory"}, "kafka.sasl.kerberos.keytab"),
        ({"kafka.sasl.kerberos.service.name": "other"}, "kafka.sasl.kerberos.service.name"),
        ({"kafka.sasl.kerberos.keytab": "/nowhere.keytab"}, "kafka.sasl.kerberos.keytab"),
    ],
    ids=["a key that was changed", "another service", "no key tab"],
)
def test_a_wrong_login_is_reported_at_once(realm, given, says):
    began = time.monotonic()
    with pytest.raises(BadConfigurationError) as refused:
        source_query(realm.settings(**given), subscribe="t", client="protocol").read_all_now()
    assert time.monotonic() - began < 60, "it was tried again, for two minutes"
    assert says in str(refused.value) and "localhost" in str(refused.value) and "\n" not in str(refused.value)


def test_wheels_of_confluent_kafka_have_no_kerberos(realm, tmp_path):
    query = sink_query(realm.settings(), tmp_path / "ck", topic="t", client="librdkafka")
    with pytest.raises(BadConfigurationError, match="The wheels of confluent-kafka have no Kerberos"):
        query.run(0, [[rows("a")]])


def test_the_page_shows_the_options_that_are_tried(realm):
    page = (Path(__file__).parents[3] / "docs/production/logins.md").read_text("utf-8")
    (block,) = re.findall(r"<!-- login: GSSAPI -->\n```python\n(.*?)```", page, re.DOTALL)
    assert re.findall(r'"(kafka[\w.]+)":', block) == list(realm.settings())
