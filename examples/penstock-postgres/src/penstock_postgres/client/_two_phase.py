"""Prepared transactions, and the table that says which of them were committed.

A prepared transaction that is gone was committed or rolled back, and PostgreSQL does not say which. So each one adds
its own name to ``penstock_commits``, which stands beside the target: the name is there exactly if it was committed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import psycopg
from psycopg import sql

from penstock.errors import BadConfigurationError, RetriableError
from penstock_postgres.client._connection import Connection, create_if_missing, errors
from penstock_postgres.client._table import Table

__all__ = ["TwoPhaseTable"]

_PREFIX = "penstock"
_COMMITS = "penstock_commits"


class TwoPhaseTable:
    """The prepared transactions of one query that write to ``table``. Holds no connection, and is picklable."""

    def __init__(self, table: Table, query_id: str) -> None:
        self._what = f"table {table}"
        self._commits = table.neighbour(_COMMITS)
        self._query_id = query_id

    @staticmethod
    def set_up(connection: Connection, table: Table) -> None:
        """Makes the table of commits, if it is missing. Raises BadConfigurationError if nothing can be prepared."""
        with errors(f"table {table}"):
            row = connection.execute("show max_prepared_transactions").fetchone()
            if row == ("0",):
                raise BadConfigurationError(
                    "PostgreSQL prepares no transactions: set max_prepared_transactions in postgresql.conf to more "
                    "than the number of tasks that run at a time, and restart the server"
                )
            commits = table.neighbour(_COMMITS)
            columns = sql.SQL("(gid text primary key, query text not null, base bigint not null)")
            create_if_missing(connection, sql.SQL("create table if not exists {} {}").format(commits, columns))

    def gid(self, base: int, attempt_id: str) -> str:
        """The name of the transaction of one attempt. It is unique in the world, and shows when it is garbage."""
        return f"{_PREFIX}:{self._query_id}:{base}:{attempt_id}"

    def prepare(self, connection: Connection, gid: str) -> None:
        """Ends the first phase of the transaction that is open on ``connection``."""
        note = sql.SQL("insert into {} values (%s, %s, %s)").format(self._commits)
        with errors(self._what):
            connection.execute(note, [gid, self._query_id, _base(gid)])
            try:
                connection.execute(sql.SQL("prepare transaction {}").format(sql.Literal(gid)))
            except psycopg.errors.OutOfMemory as error:
                raise RetriableError(
                    "PostgreSQL has no room for another prepared transaction: set max_prepared_transactions "
                    "to more than the number of tasks that run at a time, in all queries"
                ) from error

    def commit(self, connection: Connection, gid: str) -> bool:
        """Makes the rows visible. Returns whether they are; they are not if somebody has rolled them back."""
        return self._end(connection, "commit", gid) or gid in self.committed(connection, [gid])

    def roll_back(self, connection: Connection, gid: str) -> bool:
        """Makes sure that nobody commits it any more. One that was committed stays so."""
        return self._end(connection, "rollback", gid)

    def _end(self, connection: Connection, verb: str, gid: str) -> bool:
        """Returns false if no such transaction is prepared. Raises RetriableError while another process ends it."""
        try:
            with errors(self._what):
                connection.execute(sql.SQL(f"{verb} prepared {{}}").format(sql.Literal(gid)))
        except BadConfigurationError as error:
            if isinstance(error.__cause__, psycopg.errors.UndefinedObject):
                return False
            if isinstance(error.__cause__, psycopg.errors.ObjectNotInPrerequisiteState):  # "is busy"
                raise RetriableError(str(error)) from error
            raise
        return True

    def prepared(self, connection: Connection) -> list[str]:
        """The names of the query's prepared transactions."""
        found = "select gid from pg_prepared_xacts where database = current_database() and starts_with(gid, %s)"
        with errors(self._what):
            return [gid for (gid,) in connection.execute(found, [f"{_PREFIX}:{self._query_id}:"])]

    def committed(self, connection: Connection, gids: Sequence[str]) -> set[str]:
        """Those of ``gids`` that were committed and are not forgotten.

        Ask for the prepared ones first: between the two answers one may be committed, and would be in neither.
        """
        found = sql.SQL("select gid from {} where gid = any(%s)").format(self._commits)
        with errors(self._what):
            return {gid for (gid,) in connection.execute(found, [list(gids)])}

    def clear(self, connection: Connection, before_base: int, kept: Collection[str]) -> int:
        """Rolls back and forgets what has a base below ``before_base`` and is not in ``kept``. Returns how many."""
        garbage = [gid for gid in self.prepared(connection) if _base(gid) < before_base and gid not in kept]
        gone = sum(self.roll_back(connection, gid) for gid in garbage)
        forget = sql.SQL("delete from {} where query = %s and base < %s and gid <> all(%s)").format(self._commits)
        with errors(self._what):
            return gone + connection.execute(forget, [self._query_id, before_base, list(kept)]).rowcount

    def forget_all(self, connection: Connection) -> None:
        """Forgets which transactions of the query were committed."""
        with errors(self._what):
            forget = sql.SQL("delete from {} where query = %s").format(self._commits)
            connection.execute(forget, [self._query_id])


def _base(gid: str) -> int:
    return int(gid.rsplit(":", 2)[1])
