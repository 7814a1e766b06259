"""Writing tables: upserts, write-ahead, or at least once."""

from penstock_cassandra.sink._ahead import SentTable, WriteAheadCassandraSink
from penstock_cassandra.sink._create import create_sink
from penstock_cassandra.sink._plain import PlainCassandraSink
from penstock_cassandra.sink._upsert import UpsertCassandraSink

__all__ = ["PlainCassandraSink", "SentTable", "UpsertCassandraSink", "WriteAheadCassandraSink", "create_sink"]
