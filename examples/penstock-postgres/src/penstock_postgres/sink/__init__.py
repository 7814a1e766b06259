"""Writing: exactly once, or by key."""

from penstock_postgres.sink._sink import PostgresTransactionalSink, PostgresUpsertSink, create_sink

__all__ = ["PostgresTransactionalSink", "PostgresUpsertSink", "create_sink"]
