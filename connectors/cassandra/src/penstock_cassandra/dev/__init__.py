"""A Cassandra server to develop and to test against. Needs Java 17, or a container engine."""

from penstock_cassandra.dev._cluster import CassandraCluster
from penstock_cassandra.dev._server import CassandraDevServer, CassandraServer, cassandra_server

__all__ = ["CassandraCluster", "CassandraDevServer", "CassandraServer", "cassandra_server"]
