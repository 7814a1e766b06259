"""What a write says to the server: statements, and which column of the rows goes to which of their markers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import nearest_hint, warn_once
from penstock_cassandra._tables import Table, check_same_table, quoted, table_id, table_of
from penstock_cassandra.client import Client, Statement
from penstock_cassandra.options import SinkOptions
from penstock_cassandra.types import CqlType, check_writable, cql_type_of

__all__ = ["Binding", "BoundStatement", "WritePlan", "target_of", "write_plan"]

_NOT_REPEATABLE = re.compile(
    r"\b(now|uuid|currenttimestamp|currentdate|currenttime|currenttimeuuid)\s*\(", re.IGNORECASE
)
_INSERT = re.compile(r"^\s*INSERT\s+INTO\b", re.IGNORECASE)
_NAME = r'("(?:[^"]|"")+"|\w+)'
_TARGET = re.compile(rf"\b(?:INTO|UPDATE|FROM)\s+{_NAME}\s*\.\s*{_NAME}", re.IGNORECASE)
_LWT = re.compile(r"\bIF\s+(NOT\s+EXISTS|EXISTS|\w+\s*[=<>])", re.IGNORECASE)


@dataclass(frozen=True)
class Binding:
    """A marker: the column of the rows that it takes, its type, whether a null is left as it is, and if it is a key."""

    column: str
    cql: CqlType
    unset_nulls: bool
    is_key: bool


@dataclass(frozen=True)
class BoundStatement:
    """A statement with its markers, in order."""

    statement: Statement
    bindings: tuple[Binding, ...]


@dataclass(frozen=True)
class WritePlan:
    """``key``: columns of the rows that are the primary key. ``partition_key``: those that decide where a row goes,
    with their types; empty if they are unknown. ``deletes`` is for rows that are deleted, as the column of operations
    or the delete column says. ``table_id``: of the table that was planned for.
    """

    writes: BoundStatement
    deletes: BoundStatement | None
    key: tuple[str, ...]
    partition_key: tuple[Binding, ...]
    keyspace: str
    table: str
    counters: bool
    lwt: bool
    table_id: str

    def letter_fields(self, rows: pa.RecordBatch) -> dict[str, str]:
        """Returns what the letters of refused rows say of the table."""
        return {"source": f"{self.keyspace}.{self.table}"}

    def check_table(self, client: Client) -> None:
        """Raises an error if the statements are not for the table as it is now: no row is to blame for that.

        It is BadConfigurationError for one that was dropped, or altered so that it does not take the columns any more;
        DataLostError for one that was dropped and created again.
        """
        for prepared in (self.writes, self.deletes):
            if prepared is not None:
                try:
                    client.prepare_again(prepared.statement.cql)
                except BadConfigurationError as error:
                    what = f"table {self.keyspace}.{self.table} was changed while rows were written to it"
                    raise BadConfigurationError(f"{what}: {error}") from error
        self.check_table_id(client)

    def check_table_id(self, client: Client) -> None:
        """Raises DataLostError for a table that was dropped and created again."""
        then = (
            "rows that were written to it are gone, or, where columns have other types now, may have other values. "
            "Write them again"
        )
        check_same_table(self.keyspace, self.table, self.table_id, table_id(client, self.keyspace, self.table), then)

    def check(self, schema: pa.Schema, options: SinkOptions) -> None:
        """Raises BadConfigurationError for rows that can't be written so; warns of what is cut off."""
        for prepared in (self.writes, self.deletes):
            for one in prepared.bindings if prepared is not None else ():
                given = schema.field(one.column).type
                if one.column == options.timestamp_column and pa.types.is_timestamp(given):
                    continue
                check_writable(one.column, one.cql, given)
                if one.cql.name == "timestamp" and pa.types.is_timestamp(given) and given.unit in ("us", "ns"):
                    warn_once(
                        f"column '{one.column}': Cassandra keeps the milliseconds of a timestamp, and what is finer is "
                        f"cut off (table {self.keyspace}.{self.table})"
                    )
        if options.delete_column and not pa.types.is_boolean(schema.field(options.delete_column).type):
            raise BadConfigurationError(f"option 'deleteColumn': column '{options.delete_column}' is not boolean")
        if self.counters and options.delivery != "at-least-once":
            raise BadConfigurationError(
                f"table {self.keyspace}.{self.table} has counters: adding to one can't be repeated without counting "
                "twice, and Cassandra has no transaction to prevent it. Sum up in a plain column, or set the option "
                "'delivery' to at-least-once"
            )


def target_of(options: SinkOptions) -> str:
    """``keyspace.table``, for a person, by the options alone; empty if the statement does not tell."""
    if options.table:
        return f"{options.keyspace}.{options.table}"
    found = _TARGET.search(options.statement)
    return "" if found is None else ".".join(_as_it_is(name) for name in found.groups())


def _as_it_is(identifier: str) -> str:
    return identifier[1:-1].replace('""', '"') if identifier.startswith('"') else identifier.lower()


def write_plan(client: Client, options: SinkOptions, schema: pa.Schema) -> WritePlan:
    """Raises BadConfigurationError for columns that do not fit and statements that the delivery does not allow."""
    return _of_statement(client, options, schema) if options.statement else _of_table(client, options, schema)


def _of_table(client: Client, options: SinkOptions, schema: pa.Schema) -> WritePlan:
    table = table_of(client, options.keyspace, options.table)
    options.changes.check_schema(schema)
    named = {
        "ttlColumn": options.ttl_column,
        "timestampColumn": options.timestamp_column,
        "deleteColumn": options.delete_column,
        "operationColumn": options.changes.operation,
        "unavailableColumn": options.changes.unavailable,
    }
    for option, name in named.items():
        if name and name not in schema.names:
            raise BadConfigurationError(
                f"option '{option}': the rows have no column '{name}', only: {', '.join(schema.names)}"
            )
    helpers = set(named.values()) - {""}
    names = [name for name in schema.names if name not in helpers]
    targets = _targets(table, options, names, schema)
    of_table = {target: name for name, target in targets.items()}
    key = [column.name for column in table.primary_key]
    missing = [name for name in key if name not in of_table]
    if missing:
        raise BadConfigurationError(
            f"the rows have no column '{missing[0]}', which is of the key of {options.keyspace}.{options.table}: "
            f"{', '.join(key)}"
        )
    where = f"{quoted(options.keyspace)}.{quoted(options.table)}"
    counters = any(column.cql_type == "counter" for column in table.columns.values())
    if counters:
        raise BadConfigurationError(
            f"table {options.keyspace}.{options.table} has counters: they can't be set, only added to, which can't be "  # noqa: S608 - quoted
            "repeated without counting twice. For that, set the option 'delivery' to at-least-once and give a "
            "statement: UPDATE … SET c = c + ? WHERE …"
        )
    using, extra = _using(options)
    exists = " IF NOT EXISTS" if options.if_not_exists else ""
    marks = ", ".join("?" for _ in names)
    written = ", ".join(quoted(targets[name]) for name in names)
    insert = f"INSERT INTO {where} ({written}) VALUES ({marks}){exists}{using}"  # noqa: S608 - quoted
    row_key = tuple(of_table[name] for name in key)
    writes = _prepared(client, insert, table.id, [*names, *extra], _unset(options, targets, key) | set(extra), row_key)
    deletes = None
    if options.delete_column or options.changes.operation:
        stamp = [name for name in extra if name == options.timestamp_column]
        conditions = " AND ".join(f"{quoted(name)} = ?" for name in key)
        delete = f"DELETE FROM {where}{' USING TIMESTAMP ?' if stamp else ''} WHERE {conditions}"  # noqa: S608 - quoted
        deletes = _prepared(client, delete, table.id, [*stamp, *row_key], set(stamp), row_key)
    types = {one.column: one for one in writes.bindings[: len(names)]}
    partition = tuple(types[of_table[column.name]] for column in table.partition_key)
    return WritePlan(
        writes, deletes, row_key, partition, options.keyspace, options.table, counters, options.if_not_exists, table.id
    )


def _targets(table: Table, options: SinkOptions, names: Sequence[str], schema: pa.Schema) -> dict[str, str]:
    """Returns the column of the table by that of the rows."""
    for name in options.columns:
        if name not in names:
            near = nearest_hint(name, names)
            raise BadConfigurationError(
                f"option 'columns': the rows have no column '{name}'{near}, only: {', '.join(schema.names)}"
            )
    targets = {name: options.columns[name].name if name in options.columns else name for name in names}
    for name, target in targets.items():
        if target not in table.columns:
            near = nearest_hint(target, table.columns)
            raise BadConfigurationError(f"table {options.keyspace}.{options.table} has no column '{target}'{near}")
        if (other := next(one for one, to in targets.items() if to == target)) != name:
            raise BadConfigurationError(f"columns '{other}' and '{name}' of the rows both go to '{target}'")
    return targets


def _unset(options: SinkOptions, targets: dict[str, str], key: Sequence[str]) -> set[str]:
    """Columns of the rows whose nulls leave what is there."""
    found = set()
    for name, target in targets.items():
        given = options.columns[name].nulls if name in options.columns else None
        if target not in key and (given == "unset" if given else options.unset_nulls):
            found.add(name)
    return found


def _using(options: SinkOptions) -> tuple[str, list[str]]:
    parts, columns = [], []
    if options.timestamp_column:
        parts.append("TIMESTAMP ?")
        columns.append(options.timestamp_column)
    if options.ttl_column:
        parts.append("TTL ?")
        columns.append(options.ttl_column)
    elif options.ttl is not None:
        parts.append(f"TTL {options.ttl}")
    return (f" USING {' AND '.join(parts)}" if parts else ""), columns


def _prepared(
    client: Client, cql: str, table_id: str, columns: Sequence[str], unset: set[str], key: Sequence[str]
) -> BoundStatement:
    statement = client.prepare(cql, table_id)
    bindings = [
        Binding(column, cql_type_of(marker[3]), column in unset, column in key)
        for column, marker in zip(columns, statement.markers, strict=True)
    ]
    return BoundStatement(statement, tuple(bindings))


def _of_statement(client: Client, options: SinkOptions, schema: pa.Schema) -> WritePlan:
    cql = options.statement.strip().rstrip(";")
    try:
        statement = client.prepare(cql)
    except BadConfigurationError as error:
        raise BadConfigurationError(f"option 'statement': {error}") from error.__cause__
    markers = statement.markers
    if len(markers) != len(schema.names):
        raise BadConfigurationError(
            f"option 'statement' has {len(markers)} places for values (?), the rows have {len(schema.names)} columns: "
            f"{', '.join(schema.names)}"
        )
    lwt = _LWT.search(cql) is not None
    if lwt and options.timestamp_us is not None:
        raise BadConfigurationError(
            "option 'timestamp' can't be used with a statement that has IF: the server stamps such writes itself"
        )
    if options.delivery == "exactly-once":
        _check_repeatable(cql)
    unset = set(schema.names) if options.unset_nulls else set()
    table = table_of(client, markers[0][0], markers[0][1])
    by_marker: dict[str, Any] = {marker[2]: name for marker, name in zip(markers, schema.names, strict=True)}
    key = tuple(by_marker[column.name] for column in table.primary_key if column.name in by_marker)
    if not key:
        raise BadConfigurationError("option 'statement' has no ? for a column of the table's key")
    writes = _prepared(client, cql, table.id, schema.names, unset - set(key), key)
    bound = {one.column: one for one in writes.bindings}
    partition = [by_marker.get(column.name) for column in table.partition_key]
    counters = any(column.cql_type == "counter" for column in table.columns.values())
    complete = tuple(bound[name] for name in partition if name) if all(partition) else ()
    return WritePlan(writes, None, key, complete, markers[0][0], markers[0][1], counters, lwt, table.id)


def _check_repeatable(cql: str) -> None:
    if not _INSERT.match(cql):
        raise BadConfigurationError(
            "option 'statement' is no INSERT: for exactly once it has to give the same when it is repeated. Set the "
            "option 'delivery' to write-ahead, which repeats at most one segment after a crash"
        )
    found = _NOT_REPEATABLE.search(cql)
    if found:
        raise BadConfigurationError(
            f"option 'statement' uses {found.group(1)}(), which gives another value when it is repeated: make it a "
            "column of the rows, or set the option 'delivery' to write-ahead"
        )
