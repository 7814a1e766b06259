"""Reading tables and queries, split by token."""

from penstock_cassandra.source._source import CassandraSource
from penstock_cassandra.source._split import TableState, TokenRange, TokenSplit

__all__ = ["CassandraSource", "TableState", "TokenRange", "TokenSplit"]
