"""Reading: by ranges of a key, as the table was at one moment."""

from penstock_postgres.source._source import PostgresSource

__all__ = ["PostgresSource"]
