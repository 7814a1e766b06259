"""SQLite tables for PySpark: ``.format("penstock.sqlite")``."""

from penstock_sqlite._connector import SqliteConnector

__all__ = ["SqliteConnector"]
