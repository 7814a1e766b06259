"""Cassandra tables to and from Spark, as the format ``penstock.cassandra``."""

from penstock_cassandra._connector import CassandraConnector
from penstock_cassandra.lookup import Lookup

__all__ = ["CassandraConnector", "Lookup"]
