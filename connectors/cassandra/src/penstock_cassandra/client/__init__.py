"""Talking to Cassandra: the driver, with result pages and batches left as bytes for Arrow's sake."""

from penstock_cassandra.client._client import Client, Page, Statement, acquire_client, release_client, shared_client
from penstock_cassandra.client._errors import cassandra_errors, translate, was_not_applied
from penstock_cassandra.client._murmur3 import murmur3
from penstock_cassandra.client._raw import RawRows, RowsBatch
from penstock_cassandra.client._settings import ConnectionSettings
from penstock_cassandra.client._throttle import Throttle

__all__ = [
    "Client",
    "ConnectionSettings",
    "Page",
    "RawRows",
    "RowsBatch",
    "Statement",
    "Throttle",
    "acquire_client",
    "cassandra_errors",
    "murmur3",
    "release_client",
    "shared_client",
    "translate",
    "was_not_applied",
]
