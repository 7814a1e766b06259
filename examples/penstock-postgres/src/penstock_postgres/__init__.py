"""PostgreSQL tables for PySpark: ``.format("penstock.postgres")``."""

from penstock_postgres._connector import PostgresConnector

__all__ = ["PostgresConnector"]
