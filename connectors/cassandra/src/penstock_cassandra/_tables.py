"""Tables by name: what the source, the sinks and the lookup know of them."""

from __future__ import annotations

from typing import Any

from penstock.errors import BadConfigurationError, DataLostError
from penstock.options import nearest_hint
from penstock_cassandra.client import Client

__all__ = ["check_same_table", "quoted", "table_id", "table_of"]

_ID = "select id from system_schema.{kind}s where keyspace_name = ? and {kind}_name = ?"


def quoted(name: str) -> str:
    """``name`` as an identifier of CQL, exactly as it is."""
    return '"' + name.replace('"', '""') + '"'


def table_of(client: Client, keyspace: str, table: str) -> Any:
    """Returns the driver's metadata of a table. Raises BadConfigurationError if there is none."""
    known = client.keyspace(keyspace)
    if known is None:
        near = nearest_hint(keyspace, client.metadata.keyspaces)
        raise BadConfigurationError(f"the cluster has no keyspace '{keyspace}'{near}")
    if table not in known.tables and table not in known.views:
        client.refresh_schema(keyspace, table)
        known = client.metadata.keyspaces[keyspace]
    found = known.tables.get(table) or known.views.get(table)
    if found is None:
        near = nearest_hint(table, known.tables)
        raise BadConfigurationError(f"keyspace '{keyspace}' has no table '{table}'{near}")
    return found


def table_id(client: Client, keyspace: str, table: str) -> str:
    """Returns the id by which servers know a table or a view; empty if it has none, or is not there.

    One that is dropped and created again has another id. Statements that were prepared for the first one keep its
    types, and go through: servers know statements by their text.
    """
    for kind in ("table", "view"):
        if rows := client.rows(_ID.format(kind=kind), (keyspace, table)):
            return str(rows[0][0])
    return ""


def check_same_table(keyspace: str, table: str, before: str, now: str, then: str) -> None:
    """Raises DataLostError for two ids of tables that are not the same. ``then`` says what that means."""
    if before and now and now != before:
        raise DataLostError(
            f"table {keyspace}.{table} was dropped and created again (id {before} is now {now}): {then}"
        )
