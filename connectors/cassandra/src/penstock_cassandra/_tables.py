"""Tables by name: what the source, the sinks and the lookup know of them."""

from __future__ import annotations

from typing import Any

from penstock.errors import BadConfigurationError
from penstock.options import nearest_hint
from penstock_cassandra.client import Client

__all__ = ["quoted", "table_of"]


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
