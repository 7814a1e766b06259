"""What users set arrives where it is used; what it does there, the tests of source, sink and client say."""

from __future__ import annotations

import pickle

import pytest

from penstock.errors import BadConfigurationError
from penstock_cassandra import CassandraConnector, Lookup
from penstock_cassandra.options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions, SourceOptions

CONNECTION = {
    "host": "a, b",
    "port": "9142",
    "localDatacenter": "dc1",
    "user": "anna",
    "password": "hunter2",
    "tls": "true",
    "tls.caFile": "ca.pem",
    "tls.certFile": "cert.pem",
    "tls.keyFile": "key.pem",
    "tls.keyPassword": "hunter3",
    "tls.checkHostname": "false",
    "connectTimeout": "3s",
    "requestTimeout": "4s",
    "retryTimeout": "5s",
    "consistency": "TWO",
}
TABLE = {"keyspace": "k", "table": "t"}


def source(**given):
    return SourceOptions.from_values(SOURCE_OPTIONS.parse({**TABLE, **given}, owner="source"))


def sink(**given):
    return SinkOptions.from_values(SINK_OPTIONS.parse({**TABLE, **given}, owner="sink"))


@pytest.mark.parametrize("made_of", [source, sink])
def test_how_to_connect(made_of):
    made = made_of(**CONNECTION)
    there = made.connection
    assert (there.hosts, there.port, there.local_dc, there.user, there.password) == (
        ("a", "b"), 9142, "dc1", "anna", "hunter2",
    )  # fmt: skip
    assert (there.tls, there.tls_ca_file, there.tls_cert_file, there.tls_key_file, there.tls_key_password) == (
        True, "ca.pem", "cert.pem", "key.pem", "hunter3",
    )  # fmt: skip
    assert (there.tls_check_hostname, there.consistency) == (False, "TWO")
    assert (there.connect_timeout_s, there.request_timeout_s) == (3, 4)
    assert "hunter" not in repr(made) and pickle.loads(pickle.dumps(made)) == made


def test_how_to_read():
    made = source(maxSplitSize="8mb", maxSplitsPerTrigger="7", pageBytes="64kb", maxInFlight="3")
    assert (made.max_split_bytes, made.max_splits_per_trigger, made.page_bytes) == (8 << 20, 7, 64 << 10)
    assert made.max_in_flight == 3 and source().max_in_flight == 2


def test_how_to_write():
    made = sink(batchBytes="2kb", batchGrouping="partition", maxInFlight="3", maxRowsPerSecond="9")
    assert (made.batch_bytes, made.grouping, made.max_in_flight, made.max_rows_per_second) == (2048, "partition", 3, 9)
    assert sink(delivery="write-ahead", checkpointKeyspace="notes").checkpoint_keyspace == "notes"


@pytest.mark.parametrize("name", ["where", "pageRows", "splits", "maxRowsPerSecond", "query"])
def test_a_lookup_refuses_what_it_can_not_use(name):
    """It accepted the condition and joined the rows that it excludes."""
    with pytest.raises(BadConfigurationError, match=f"look-?up in penstock.cassandra has no option '{name}'"):
        Lookup({**TABLE, name: "1"}, ["id"], ["name"])


def test_former_names_are_accepted(caplog):
    values = CassandraConnector.source_options.parse({**TABLE, "retryFor": "7s"}, owner="source")
    assert values["retryTimeout"] == 7000
    assert "option 'retryFor' is called 'retryTimeout' now" in caplog.text


@pytest.mark.parametrize(
    ("declared", "name", "most"), [(SINK_OPTIONS, "ttl", 630_720_000), (SOURCE_OPTIONS, "pageRows", (1 << 31) - 1)]
)
def test_what_the_server_would_refuse_is_refused_before(declared, name, most):
    assert declared.parse({**TABLE, name: str(most)}, owner="t")[name] == most
    with pytest.raises(BadConfigurationError, match=f"option '{name}': '{most + 1}' is above the largest value {most}"):
        declared.parse({**TABLE, name: str(most + 1)}, owner="t")
