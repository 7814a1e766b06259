"""Talking to Cassandra: the driver, with result pages and batches left as bytes for Arrow's sake."""

from penstock_cassandra.client._client import Client, Page, Statement, shared_client
from penstock_cassandra.client._errors import cassandra_errors, translate
from penstock_cassandra.client._raw import RowsBatch
from penstock_cassandra.client._settings import ConnectionSettings

__all__ = [
    "Client",
    "ConnectionSettings",
    "Page",
    "RowsBatch",
    "Statement",
    "cassandra_errors",
    "shared_client",
    "translate",
]
