"""Tables by name: what the source, the sinks and the lookup know of them.

The connector reads the definition of a table when it needs it, from any node. It does not use the driver's copy of the
schema: that copy holds every table of the cluster, and each connection, one in each Python process, would load it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import BadConfigurationError, DataLostError
from penstock.options import nearest_hint
from penstock_cassandra.client import Client

__all__ = ["Column", "Table", "aggregates_of", "check_same_table", "has_keyspace", "quoted", "table_id", "table_of"]

_KEYSPACE = "select durable_writes, replication from system_schema.keyspaces where keyspace_name = ?"
_OF_TABLE = "where keyspace_name = ? and table_name = ?"
_TABLE = f"select id, flags from system_schema.tables {_OF_TABLE}"  # noqa: S608 - no values
_VIEW = "select id from system_schema.views where keyspace_name = ? and view_name = ?"
_COLUMNS = f"select column_name, kind, position, type from system_schema.columns {_OF_TABLE}"  # noqa: S608 - no values
_VIRTUAL_COLUMNS = _COLUMNS.replace("system_schema", "system_virtual_schema")
_INDEXES = f"select options from system_schema.indexes {_OF_TABLE}"  # noqa: S608 - no values
_KEYSPACES = "select keyspace_name from system_schema.keyspaces"
_TABLES = "select table_name from system_schema.tables where keyspace_name = ?"
_AGGREGATES = "select aggregate_name from system_schema.aggregates where keyspace_name = ?"
_KEY = ("partition_key", "clustering")


def quoted(name: str) -> str:
    """``name`` as an identifier of CQL, exactly as it is."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Column:
    """A column of a table. ``cql_type``: as CQL spells it."""

    name: str
    cql_type: str


@dataclass(frozen=True)
class Table:
    """A table or a view, as a node described it.

    ``id``: see :func:`table_id`. ``columns``: the key's first. ``indexed``: those with an index.
    """

    id: str
    columns: Mapping[str, Column]
    partition_key: tuple[Column, ...]
    clustering_key: tuple[Column, ...]
    indexed: tuple[str, ...] = ()

    @property
    def primary_key(self) -> tuple[Column, ...]:
        """The partition key and the clustering key."""
        return self.partition_key + self.clustering_key


def table_of(client: Client, keyspace: str, table: str) -> Table:
    """Returns a table or a view as it is now. Raises BadConfigurationError if there is none.

    Costs one round trip. The driver learns on the way which nodes hold the keyspace's rows.
    """
    names = keyspace, table
    tables, views, columns, indexes, keyspaces = client.local_rows(
        (_TABLE, names), (_VIEW, names), (_COLUMNS, names), (_INDEXES, names), (_KEYSPACE, (keyspace,))
    )
    if keyspaces:
        client.learn_keyspace(keyspace, *keyspaces[0])
    if tables:
        ((found_id, flags),) = tables
        return _table(found_id, flags, columns, [options.get("target", "").strip('"') for (options,) in indexes])
    if views:
        return _table(views[0][0], {"compound"}, columns, [])
    if found := _virtual_columns(client, keyspace, table):
        return _table(None, {"compound"}, found, [])
    if not keyspaces:
        near = nearest_hint(keyspace, _names(client, _KEYSPACES))
        raise BadConfigurationError(f"the cluster has no keyspace '{keyspace}'{near}")
    near = nearest_hint(table, _names(client, _TABLES, keyspace))
    raise BadConfigurationError(f"keyspace '{keyspace}' has no table '{table}'{near}")


def has_keyspace(client: Client, keyspace: str) -> bool:
    """Returns whether the cluster has a keyspace of that name."""
    return client.local_rows((_KEYSPACE, (keyspace,))) != [[]]


def _virtual_columns(client: Client, keyspace: str, table: str) -> list[tuple[Any, ...]]:
    """Returns the columns of a table of ``system_views`` and its like, which servers before 4.0 do not have."""
    try:
        (found,) = client.local_rows((_VIRTUAL_COLUMNS, (keyspace, table)))
        return found
    except BadConfigurationError:
        return []


def _names(client: Client, cql: str, *values: str) -> list[str]:
    (rows,) = client.local_rows((cql, values))
    return [name for (name,) in rows]


def _table(found_id: Any, flags: Iterable[str], rows: Sequence[tuple[Any, ...]], targets: Iterable[str]) -> Table:
    """Returns the table of these rows of ``system_schema.columns``.

    Tables with ``COMPACT STORAGE`` have columns that CQL hides. A table that is neither dense, super nor compound shows
    only its partition key and its static columns, as regular ones. A dense table may have a column of type ``empty``.
    """
    kept = set(flags or ())
    only_static = not kept & {"dense", "super", "compound"}
    by_kind: dict[str, list[tuple[int, Column]]] = {}
    for name, kind, position, cql_type in sorted(rows):
        if only_static and kind not in ("partition_key", "static"):
            continue
        if "dense" in kept and cql_type == "empty":
            continue
        by_kind.setdefault(kind if kind in _KEY else "", []).append((position, Column(name, cql_type)))
    partition, clustering = (
        tuple(column for _, column in sorted(by_kind.get(kind, []), key=lambda one: one[0])) for kind in _KEY
    )
    others = tuple(column for _, column in by_kind.get("", []))
    columns = {column.name: column for column in (*partition, *clustering, *others)}
    indexed = tuple(sorted(set(targets) & set(columns)))
    return Table("" if found_id is None else str(found_id), columns, partition, clustering, indexed)


def table_id(client: Client, keyspace: str, table: str) -> str:
    """Returns the id by which servers know a table or a view; empty if it has none, or is not there.

    One that is dropped and created again has another id. Statements that were prepared for the first one keep its
    types, and go through: servers know statements by their text.
    """
    tables, views = client.local_rows((_TABLE, (keyspace, table)), (_VIEW, (keyspace, table)))
    return str((tables or views)[0][0]) if tables or views else ""


def aggregates_of(client: Client, keyspace: str) -> list[str]:
    """Returns the names of the aggregates that a keyspace defines."""
    return _names(client, _AGGREGATES, keyspace)


def check_same_table(keyspace: str, table: str, before: str, now: str, then: str) -> None:
    """Raises DataLostError for two ids of tables that are not the same. ``then`` says what that means."""
    if before and now and now != before:
        raise DataLostError(
            f"table {keyspace}.{table} was dropped and created again (id {before} is now {now}): {then}"
        )
