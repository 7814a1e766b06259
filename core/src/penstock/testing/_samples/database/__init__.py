"""A small exactly-once sink for a database that has prepared transactions. SQLite is in its place."""

from penstock.testing._samples.database._connector import BankConnector

__all__ = ["BankConnector"]
