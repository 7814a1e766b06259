"""The connector knows the tables that it asks for, and a connection loads no others."""

from __future__ import annotations

import pytest

from penstock.errors import BadConfigurationError
from penstock_cassandra._tables import table_of
from penstock_cassandra.client import Client


@pytest.fixture
def client(cassandra):
    with Client(cassandra.settings) as client:
        yield client


def test_a_connection_loads_no_schema(cassandra, client):
    assert client.metadata.keyspaces == {}
    found = table_of(client, cassandra.keyspace, cassandra.table("k int, c text, v text, primary key (k, c)"))
    assert [column.name for column in found.primary_key] == ["k", "c"] and list(found.columns) == ["k", "c", "v"]
    (known,) = client.metadata.keyspaces.values()
    assert known.name == cassandra.keyspace and known.tables == {}
    assert client.metadata.get_replicas(cassandra.keyspace, b"key"), "writes are sent to replicas"


def test_a_change_is_seen_at_once(cassandra, client):
    name = cassandra.table("k int primary key")
    before = table_of(client, cassandra.keyspace, name)
    cassandra.cql(f"alter table {cassandra.keyspace}.{name} add v int")
    cassandra.cql(f"create index on {cassandra.keyspace}.{name} (v)")
    after = table_of(client, cassandra.keyspace, name)
    assert (list(after.columns), after.indexed, after.id) == (["k", "v"], ("v",), before.id)


def test_a_virtual_table(client):
    assert [column.name for column in table_of(client, "system_views", "settings").partition_key] == ["name"]


def test_names_that_are_not_there(cassandra, client):
    name = cassandra.table("k int primary key")
    with pytest.raises(BadConfigurationError, match=f"has no table '{name}x'; did you mean '{name}'"):
        table_of(client, cassandra.keyspace, f"{name}x")
    with pytest.raises(BadConfigurationError, match=f"has no keyspace '{cassandra.keyspace}x'; did you mean"):
        table_of(client, f"{cassandra.keyspace}x", name)
