"""Writing tables: upserts, write-ahead, or at least once."""

from penstock_cassandra.sink._sink import (
    CassandraAtLeastOnceSink,
    CassandraUpsertSink,
    CassandraWriteAheadSink,
    create_sink,
    kind_of,
)

__all__ = ["CassandraAtLeastOnceSink", "CassandraUpsertSink", "CassandraWriteAheadSink", "create_sink", "kind_of"]
