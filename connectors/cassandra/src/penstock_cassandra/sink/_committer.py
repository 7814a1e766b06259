"""What a write-ahead sink has sent, noted in Cassandra itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from penstock.errors import BadConfigurationError, FatalError
from penstock.retry import RetryPolicy
from penstock.sink import CheckpointCommitter, Segment, base_of
from penstock_cassandra._tables import has_keyspace, quoted, table_id
from penstock_cassandra.client import Client, release_client

__all__ = ["CassandraCheckpointCommitter"]

_TABLE, _TABLE_OF_FIRST_EDITION = "penstock_sent_segments", "penstock_sent"
#: A read at one of these levels sees every write at the same level.
_QUORUMS = ("QUORUM", "LOCAL_QUORUM", "EACH_QUORUM", "ALL")


class CassandraCheckpointCommitter(CheckpointCommitter):
    """Table ``penstock_sent_segments``: a row for each segment that was sent. All of a query are one partition.

    Rows are in the order of their bases. So what is forgotten is one range from the partition's begin, and one
    tombstone, which makes those before it superfluous; nothing reads over it. Segments of later bases are never in that
    range: a call that lands late removes nothing that is still needed. Notes are read and written at a quorum even
    if rows are not: a run that takes a query over must find them.

    The first edition had a table ordered by batch, ``penstock_sent``. It is read for segments of that edition.
    """

    def __init__(self, client: Client, keyspace: str, query_id: str, retry: RetryPolicy) -> None:
        self._client = client
        self._keyspace = keyspace
        self._query_id = query_id
        self._retry = retry
        #: Not known before it is asked for.
        self._has_first_edition: bool | None = None
        self._name = f"{quoted(keyspace)}.{quoted(_TABLE)}"
        self._name_of_first_edition = f"{quoted(keyspace)}.{quoted(_TABLE_OF_FIRST_EDITION)}"
        given = client.settings.consistency
        self._consistency = given if given in _QUORUMS else "LOCAL_QUORUM"

    def close(self) -> None:
        release_client(self._client)

    def create(self) -> None:
        """Makes the table unless it is there."""
        if not has_keyspace(self._client, self._keyspace):
            raise BadConfigurationError(f"the cluster has no keyspace '{self._keyspace}' (option 'checkpointKeyspace')")
        if not table_id(self._client, self._keyspace, _TABLE):
            self._client.rows(
                f"CREATE TABLE IF NOT EXISTS {self._name} "
                "(query text, base bigint, segment text, PRIMARY KEY (query, base, segment))"
            )

    def is_recorded(self, segment: Segment) -> bool:
        cql = f"SELECT segment FROM {self._name} WHERE query = ? AND base = ? AND segment = ?"  # noqa: S608 - quoted
        if self._rows(cql, segment.base, segment.id):
            return True
        if segment.base >= 0:
            return False
        cql = f"SELECT segment FROM {self._name_of_first_edition} WHERE query = ? AND batch_id = ? AND segment = ?"  # noqa: S608 - quoted
        return bool(self._rows_of_first_edition(cql, segment.batch_id, segment.id))

    def record(self, segment: Segment) -> None:
        """Tried again: what was sent and is not noted is sent a second time."""
        cql = f"INSERT INTO {self._name} (query, base, segment) VALUES (?, ?, ?)"  # noqa: S608 - quoted
        self._retry.call(lambda: self._rows(cql, segment.base, segment.id), "noting what was sent")

    def forget(self, before_base: int, kept: Collection[str]) -> None:
        """Forgets segments below ``before_base``; from the lowest base in ``kept`` on, all stay until a later call.

        Segments of one base are decided by one link, so only ``kept`` is there.
        """
        below = min((before_base, *map(base_of, kept)))
        self._rows(f"DELETE FROM {self._name} WHERE query = ? AND base < ?", below)  # noqa: S608 - quoted
        if below >= 0:
            self._rows_of_first_edition(f"DELETE FROM {self._name_of_first_edition} WHERE query = ?")  # noqa: S608 - quoted

    def _rows(self, cql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement whose first value is the query."""
        return self._client.rows(cql, (self._query_id, *values), consistency=self._consistency)

    def _rows_of_first_edition(self, cql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Returns no rows if its table is not there; it may be dropped at any time, and never comes back."""
        if self._has_first_edition is None:
            self._has_first_edition = self._look_for_first_edition()
        if not self._has_first_edition:
            return []
        try:
            return self._rows(cql, *values)
        except FatalError:
            self._has_first_edition = self._look_for_first_edition()
            if self._has_first_edition:
                raise
            return []

    def _look_for_first_edition(self) -> bool:
        return bool(table_id(self._client, self._keyspace, _TABLE_OF_FIRST_EDITION))
