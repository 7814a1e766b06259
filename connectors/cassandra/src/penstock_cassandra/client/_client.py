"""A session with the cluster that deals in pages of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from cassandra import ConsistencyLevel, ProtocolVersion
from cassandra.metadata import KeyspaceMetadata
from cassandra.query import BoundStatement

from penstock.errors import BadDataError
from penstock.per_process import PerProcess
from penstock.serialization import MALFORMED
from penstock_cassandra.client._cluster import open_cluster
from penstock_cassandra.client._errors import cassandra_errors
from penstock_cassandra.client._raw import RawHandler, RawRows
from penstock_cassandra.client._settings import ConnectionSettings
from penstock_cassandra.client._wrong_port import wrong_port

__all__ = ["Client", "Page", "Statement", "acquire_client", "release_client", "shared_client"]


_MOST_PREPARED = 500


@dataclass(frozen=True)
class Page:
    """Some rows, as bytes, and where the next page begins (``None``: there is none)."""

    rows: RawRows
    next: bytes | None


@dataclass(frozen=True)
class Statement:
    """A prepared statement: markers and result columns as ``(keyspace, table, name, the driver's type)``."""

    cql: str
    prepared: Any

    @property
    def markers(self) -> list[Any]:
        """Its ``?``, in order."""
        return list(self.prepared.column_metadata or [])

    @property
    def columns(self) -> list[Any]:
        """What it returns."""
        return list(self.prepared.result_metadata or [])

    @property
    def id(self) -> bytes:
        """By which the server knows it."""
        return bytes(self.prepared.query_id)


class Client:
    """Thread-safe. Memory: what is asked for. Raises Penstock's errors (:func:`translate`)."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        #: The one that was asked for last at the end.
        self._prepared: OrderedDict[tuple[str, str], Statement] = OrderedDict()
        self._lock = threading.Lock()
        with cassandra_errors(f"connecting to Cassandra ({settings.where})"):
            self._connect(settings)
        self.session.client_protocol_handler = RawHandler
        self.session.use_client_timestamp = False

    def _connect(self, settings: ConnectionSettings) -> None:
        cluster = None
        try:
            self._cluster = cluster = open_cluster(settings)
            self.session = cluster.connect()
        except BaseException as error:
            if cluster is not None:
                cluster.shutdown()
            if isinstance(error, Exception):
                seen = wrong_port(settings, error, f"connecting to Cassandra ({settings.where})")
                if seen is not None:
                    raise seen from error
            raise

    @property
    def metadata(self) -> Any:
        """The driver's view of the ring. It holds no tables, and the keyspaces of :meth:`learn_keyspace`."""
        return self._cluster.metadata

    def learn_keyspace(self, name: str, durable_writes: bool, replication: Mapping[str, str]) -> None:
        """Tells the driver how a keyspace is replicated: by that it chooses nodes."""
        options = dict(replication)
        now = KeyspaceMetadata(name, durable_writes, options.pop("class"), options)
        before = self.metadata.keyspaces.get(name)
        if before is None or before.replication_strategy != now.replication_strategy:
            self.metadata.keyspaces[name] = now
            if self.metadata.token_map is not None:
                # Renews what was made for the keyspace; otherwise it is made when it is first asked for.
                self.metadata.token_map.rebuild_keyspace(name, build_if_absent=False)

    def prepare(self, cql: str, table_id: str = "") -> Statement:
        """Returns the prepared statement, the same each time while it is one of the last few hundred.

        It is another one for another ``table_id``: the types of a table that was created again may be others.
        """
        key = cql, table_id
        with self._lock:
            if key not in self._prepared:
                self._prepared[key] = self.prepare_again(cql)
            self._prepared.move_to_end(key)
            if len(self._prepared) > _MOST_PREPARED:
                self._prepared.popitem(last=False)
            return self._prepared[key]

    def prepare_again(self, cql: str) -> Statement:
        """Returns the statement as the table takes it now. Raises BadConfigurationError if it does not any more."""
        with cassandra_errors(f"preparing '{cql}'"):
            return Statement(cql, self.session.prepare(cql))

    def rows(self, cql: str, values: Sequence[Any] = (), consistency: str | None = None) -> list[tuple[Any, ...]]:
        """Returns all rows of a small query, as Python values of the driver's choice. ``consistency`` goes with
        ``values``.
        """
        with cassandra_errors(f"'{cql}'"):
            query = self._bound(cql, values, consistency) if values else cql
            return self._all_rows(query, self.session.execute(query))

    def local_rows(self, *queries: tuple[str, Sequence[Any]]) -> list[list[tuple[Any, ...]]]:
        """Returns the rows of queries of system tables, which every node keeps for itself. All are in flight at once.

        The consistency level is ONE, whatever is set for other tables. ``queries`` are CQL and its values.
        """
        with cassandra_errors(f"'{queries[0][0]}'"):
            bound = [self._bound(cql, values, "ONE") for cql, values in queries]
            futures = [self.session.execute_async(query) for query in bound]
            return [self._all_rows(query, future.result()) for query, future in zip(bound, futures, strict=True)]

    def _all_rows(self, query: Any, result: Any) -> list[tuple[Any, ...]]:
        found = _python_rows(_raw_of(result))
        while result.has_more_pages:
            result = self.session.execute(query, paging_state=result.paging_state)
            found += _python_rows(_raw_of(result))
        return found

    def _bound(self, cql: str, values: Sequence[Any], consistency: str | None) -> Any:
        bound = self.prepare(cql).prepared.bind(tuple(values))
        if consistency is not None:
            bound.consistency_level = ConsistencyLevel.name_to_value[consistency]
        return bound

    def execute_async(
        self,
        statement: Statement,
        values: Sequence[bytes | None],
        *,
        page_rows: int = 5000,
        paging_state: bytes | None = None,
        replicas: Sequence[str] = (),
        routing_key: bytes | None = None,
        consistency: str | None = None,
    ) -> Any:
        """Returns the driver's future of a page; values are serialized already. :func:`page_of` reads its result."""
        bound = BoundStatement(statement.prepared)
        bound.values = list(values)
        bound.fetch_size = page_rows
        bound.replicas = tuple(replicas)
        if routing_key is not None:
            bound._routing_key = routing_key
        if consistency is not None:
            bound.consistency_level = ConsistencyLevel.name_to_value[consistency]
        return self.session.execute_async(bound, paging_state=paging_state)

    def page(self, future: Any, what: str) -> Page:
        """Waits for the page of :meth:`execute_async`."""
        with cassandra_errors(what):
            result = future.result()
            return Page(_raw_of(result), result.paging_state)

    def close(self) -> None:
        """Ends the session and its thread."""
        self._cluster.shutdown()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _raw_of(result: Any) -> RawRows:
    """The driver puts what is not a list into one."""
    rows = result.current_rows
    return rows[0] if rows and isinstance(rows[0], RawRows) else RawRows([], 0, b"")


def _python_rows(raw: RawRows) -> list[tuple[Any, ...]]:
    # A loop per cell, for control queries of a few rows.
    found: list[tuple[Any, ...]] = []
    at = 0
    if not raw.columns and raw.count:
        raise BadDataError(f"a page of a result can't be understood: {raw.count} rows without columns")
    for _ in range(raw.count):
        row = []
        for column in raw.columns:
            length = int.from_bytes(raw.body[at : at + 4], "big", signed=True)
            at += 4
            cell = None if length < 0 else raw.body[at : at + length]
            at += max(0, length)
            if at > len(raw.body):
                raise BadDataError("a page of a result can't be understood: it is cut off")
            try:
                row.append(column[3].from_binary(cell, ProtocolVersion.V4))
            except MALFORMED as error:
                raise BadDataError(f"column '{column[2]}' of a result can't be understood: {error}") from error
        found.append(tuple(row))
    return found


_shared = PerProcess(Client, close=Client.close, files=lambda settings: settings.files)


def shared_client(settings: ConnectionSettings) -> Client:
    """Returns the client that this process shares, for a short use: a few requests, made at once."""
    return _shared.get(settings)


def acquire_client(settings: ConnectionSettings) -> Client:
    """Returns the client that this process shares, which is not closed before it is released."""
    return _shared.acquire(settings)


def release_client(client: Client) -> None:
    """Ends the use of an acquired client. It is closed when it has had no user for some minutes."""
    _shared.release(client)
