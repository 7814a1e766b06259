"""A Cassandra server to develop and to test against. Needs Java 17, or a container engine."""

from penstock_cassandra.dev._server import CassandraDevServer, cassandra_server

__all__ = ["CassandraDevServer", "cassandra_server"]
