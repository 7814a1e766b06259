"""A real server for every test: the one that PENSTOCK_CASSANDRA_ADDRESS names, or one of the test run's own."""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager

import pytest
from cassandra.concurrent import execute_concurrent_with_args

from penstock.dev import open_server
from penstock_cassandra.client import ConnectionSettings, shared_client
from suite.cassandra import QuickServer, close_clients
from suite.kept import kept_for_directory


class Cassandra:
    """The shared server, with a keyspace of the test run's own. Values are the driver's."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.settings = ConnectionSettings(hosts=(host,), port=int(port), request_timeout_s=120)
        self.client = shared_client(self.settings)
        self.keyspace = "t" + uuid.uuid4().hex[:12]
        self.cql(
            f"create keyspace {self.keyspace} with replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        )
        self.options = {"host": host, "port": port, "keyspace": self.keyspace}

    def cql(self, text, *values):
        return self.client.rows(text, values)

    def insert(self, table, columns, rows):
        """Many rows, a hundred on their way at a time. ``columns`` are their names, with commas."""
        places = ", ".join("?" for _ in columns.split(","))
        statement = self.client.prepare(f"insert into {self.keyspace}.{table} ({columns}) values ({places})")
        execute_concurrent_with_args(self.client.session, statement.prepared, rows, concurrency=100)

    def table(self, columns, options=""):
        """A new table; its name."""
        name = "t" + uuid.uuid4().hex[:12]
        self.cql(f"create table {self.keyspace}.{name} ({columns}) {options}")
        return name

    def rows(self, table, columns="*"):
        return self.cql(f"select {columns} from {self.keyspace}.{table}")


@pytest.fixture
def at_address():
    """``at_address(address)``: the same for another server. Its clients are closed: they would look for it for ever."""
    ports = set()

    def of(address):
        ports.add(int(address.rpartition(":")[2]))
        return Cassandra(address)

    yield of
    close_clients(ports)


@contextmanager
def running(folder):
    with open_server(QuickServer(), folder) as address:
        cassandra = Cassandra(address)
        yield cassandra
        if "PENSTOCK_CASSANDRA_ADDRESS" in os.environ:
            cassandra.cql(f"drop keyspace {cassandra.keyspace}")
        close_clients({cassandra.settings.port})


@pytest.fixture(scope="module")
def cassandra(request, tmp_path_factory):
    """The server that is shared, with a keyspace of the directory's own."""
    return kept_for_directory(request, "cassandra", lambda: running(tmp_path_factory.mktemp("cassandra")))
