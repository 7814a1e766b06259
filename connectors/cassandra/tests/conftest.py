"""A real server for every test: the one that PENSTOCK_CASSANDRA_ADDRESS names, or one of the test run's own."""

from __future__ import annotations

import pytest

from suite.cassandra import CassandraToolbox, cassandra_toolbox, close_clients
from suite.kept import kept_for_directory


@pytest.fixture
def at_address():
    """``at_address(address)``: the same for another server. Its clients are closed: they would look for it for ever."""
    ports = set()

    def of(address):
        ports.add(int(address.rpartition(":")[2]))
        return CassandraToolbox(address)

    yield of
    close_clients(ports)


@pytest.fixture(scope="module")
def cassandra(request, tmp_path_factory):
    """The server that is shared, with a :class:`~suite.cassandra.CassandraToolbox` of the directory's own."""
    return kept_for_directory(request, "cassandra", lambda: cassandra_toolbox(tmp_path_factory.mktemp("cassandra")))
