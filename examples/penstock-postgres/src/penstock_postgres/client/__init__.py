"""Talks to PostgreSQL: nothing else opens a connection or imports psycopg."""

from penstock_postgres.client._arrow import ENCODED, fits, read_type
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
from penstock_postgres.client._ranges import KeyRange, count_ranges, read_range, rows_to_batch
from penstock_postgres.client._table import Column, Table, describe
from penstock_postgres.client._two_phase import TwoPhaseTable
from penstock_postgres.client._upsert import STAMP, UpsertInto, add_stamp

__all__ = [
    "ENCODED",
    "STAMP",
    "Column",
    "Connection",
    "CopyIn",
    "KeyRange",
    "Server",
    "Table",
    "TwoPhaseTable",
    "UpsertInto",
    "acquire",
    "add_stamp",
    "count_ranges",
    "create_if_missing",
    "describe",
    "discard",
    "errors",
    "fits",
    "lent",
    "read_range",
    "read_type",
    "release",
    "rows_to_batch",
]
