"""What a read asks the server: the statement, its columns, and whether it is split by token."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock_cassandra._tables import Table, aggregates_of, quoted, table_of
from penstock_cassandra.client import Client, Statement
from penstock_cassandra.options import SourceOptions
from penstock_cassandra.source._cql import Select, parse_select, split_conditions
from penstock_cassandra.types import CqlType, arrow_type, check_readable, cql_type_of

__all__ = ["ReadPlan", "plan_of"]


@dataclass(frozen=True)
class ReadPlan:
    """``statement`` is prepared; with ``by_token`` its last two values are the bounds of a range.

    ``full_scan``: every row of the table is looked at, here or by the server. ``table_id``: see
    :func:`~penstock_cassandra._tables.table_id`.
    """

    select: Select
    statement: Statement
    names: tuple[str, ...]
    types: tuple[CqlType, ...]
    by_token: bool
    full_scan: bool
    table_id: str

    def schema(self) -> pa.Schema:
        """Returns what rows are, unless the user says otherwise."""
        return pa.schema([(name, arrow_type(cql)) for name, cql in zip(self.names, self.types, strict=True)])

    def check(self, wanted: pa.Schema) -> None:
        """Raises BadConfigurationError for a column that is not there, or can't be read as what is wanted."""
        by_name = dict(zip(self.names, self.types, strict=True))
        for field in wanted:
            if field.name not in by_name:
                raise BadConfigurationError(
                    f"{self.select.keyspace}.{self.select.table} gives no column '{field.name}', only: "
                    f"{', '.join(self.names)}"
                )
            check_readable(field.name, by_name[field.name], field.type)


def plan_of(
    client: Client, options: SourceOptions, columns: Sequence[str] | None = None, conditions: Sequence[str] = ()
) -> ReadPlan:
    """Returns the plan of a read of ``columns`` (all of them by default), with more conditions in CQL.

    Raises BadConfigurationError for a table that is not there and for what can't be split.
    """
    if options.query:
        select = parse_select(options.query, options.keyspace)
        table = table_of(client, select.keyspace, select.table)
        _check_aggregates(client, select)
    else:
        table = table_of(client, options.keyspace, options.table)
        select = _select(table, options, columns)
    if conditions:
        select = replace(select, where=" AND ".join(part for part in (select.where, *conditions) if part))
    key = [column.name for column in table.partition_key]
    found = split_conditions(select.where)
    _check_conditions(found, key)
    one_partition = {name for name, operator in found if operator == "="} >= set(key)
    if one_partition:
        condition, filtering = "", False
    else:
        tokens = f"token({', '.join(map(quoted, key))})"
        condition, filtering = f"{tokens} > ? AND {tokens} <= ?", bool(found)
    statement = client.prepare(select.cql(condition, filtering=filtering), table.id)
    names = tuple(column[2] for column in statement.columns)
    if len(set(names)) != len(names):
        raise BadConfigurationError(f"two columns share a name, rename one with AS: {', '.join(names)}")
    types = tuple(cql_type_of(column[3]) for column in statement.columns)
    return ReadPlan(select, statement, names, types, not one_partition, not one_partition, table.id)


def _select(table: Table, options: SourceOptions, columns: Sequence[str] | None) -> Select:
    extra = {
        f"{name}_{what}": f"{what}({quoted(name)}) AS {quoted(f'{name}_{what}')}" for name, what in _extras(options)
    }
    for name, _ in _extras(options):
        if name not in table.columns:
            raise BadConfigurationError(
                f"table '{options.table}' has no column '{name}' (ttlColumns, writetimeColumns)"
            )
    wanted = list(columns) if columns is not None else [*table.columns, *extra]
    items = [extra.get(name) or quoted(name) for name in wanted if name in table.columns or name in extra]
    # A read of no columns (a count) still has to see every row.
    return Select(
        ", ".join(items or [quoted(table.partition_key[0].name)]), options.keyspace, options.table, options.where
    )


def _extras(options: SourceOptions) -> list[tuple[str, str]]:
    return [(n, "ttl") for n in options.ttl_columns] + [(n, "writetime") for n in options.writetime_columns]


def _check_aggregates(client: Client, select: Select) -> None:
    for name in aggregates_of(client, select.keyspace):
        if re.search(rf"\b{re.escape(name)}\s*\(", select.columns, re.IGNORECASE):
            raise BadConfigurationError(
                f"option 'query' can't be read in splits: {name}() is an aggregate: each split would have one"
            )


def _check_conditions(found: Sequence[tuple[str, str]], key: Sequence[str]) -> None:
    for name, operator in found:
        if name == "token()":
            raise BadConfigurationError("a condition on token() can't be read in splits: splits are made by it")
        if name in key and operator == "IN":
            raise BadConfigurationError(
                f"IN on the partition key ('{name}') can't be read in splits. Use a Lookup, or filter with Spark"
            )
