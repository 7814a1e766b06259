"""Talks to the database: nothing else opens a connection or imports its library."""

from penstock.testing._samples.database.client._database import Database

__all__ = ["Database"]
