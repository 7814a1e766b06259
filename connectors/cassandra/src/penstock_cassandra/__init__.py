"""Cassandra tables to and from Spark, as the format ``penstock.cassandra``."""

from penstock_cassandra._connector import CassandraConnector
from penstock_cassandra._lookup import Lookup
from penstock_cassandra.options import column, columns_of

__all__ = ["CassandraConnector", "Lookup", "column", "columns_of"]
