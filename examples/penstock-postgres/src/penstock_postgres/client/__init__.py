"""Talks to PostgreSQL: nothing else opens a connection or imports psycopg."""

from penstock_postgres.client._arrow import ENCODED, fits
from penstock_postgres.client._connection import (
    Connection,
    Server,
    acquire,
    create_if_missing,
    discard,
    errors,
    lent,
    release,
)
from penstock_postgres.client._copy import CopyIn
from penstock_postgres.client._table import Column, Table, describe
from penstock_postgres.client._two_phase import TwoPhaseTable
from penstock_postgres.client._upsert import STAMP, UpsertInto, add_stamp

__all__ = [
    "ENCODED",
    "STAMP",
    "Column",
    "Connection",
    "CopyIn",
    "Server",
    "Table",
    "TwoPhaseTable",
    "UpsertInto",
    "acquire",
    "add_stamp",
    "create_if_missing",
    "describe",
    "discard",
    "errors",
    "fits",
    "lent",
    "release",
]
