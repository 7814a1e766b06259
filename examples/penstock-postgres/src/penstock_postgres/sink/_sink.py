"""The sinks: what each creates, and what it needs of the table."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.sink import (
    Committer,
    CommittingSinkWriter,
    IdempotentSink,
    Sink,
    SinkContext,
    TwoPhaseCommitSink,
    WriterContext,
)
from penstock_postgres._options import SinkOptions
from penstock_postgres.client import ENCODED, STAMP, Table, TwoPhaseTable, add_stamp, describe, fits, lent
from penstock_postgres.sink._committable import COMMITTABLE_SERIALIZER
from penstock_postgres.sink._committer import PostgresCommitter
from penstock_postgres.sink._upserter import PostgresUpserter
from penstock_postgres.sink._writer import PostgresTransactionalWriter

__all__ = ["PostgresTransactionalSink", "PostgresUpsertSink", "create_sink"]


@dataclass(frozen=True)
class PostgresTransactionalSink(TwoPhaseCommitSink[str, None]):
    """Exactly once: a prepared transaction for each task of a batch."""

    options: SinkOptions
    #: Set by :meth:`start`.
    table: Table | None = None
    committable_serializer = COMMITTABLE_SERIALIZER

    @property
    def target(self) -> str:
        return _target(self.options)

    @property
    def holds_back_readers(self) -> bool:
        """Readers wait for nothing, but a prepared transaction holds locks, keeps keys taken, and stops vacuum."""
        return True

    def validate_schema(self, schema: pa.Schema) -> None:
        _check_columns(_described(self.options), schema)

    def start(self, context: SinkContext) -> PostgresTransactionalSink:
        with lent(self.options.server) as connection:
            table = describe(connection, self.options.table)
            TwoPhaseTable.set_up(connection, table)
        return replace(self, table=table)

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[str, None]:
        assert self.table is not None, "the sink was not started"
        return PostgresTransactionalWriter(self.options.server, self.table, context)

    def create_committer(self, context: SinkContext) -> Committer[str, None]:
        return PostgresCommitter(self.options, context.query_id)


@dataclass(frozen=True)
class PostgresUpsertSink(IdempotentSink):
    """Effectively exactly once: a row replaces the row of its key, if that was not written later."""

    options: SinkOptions
    #: Set by :meth:`start`.
    table: Table | None = None

    @property
    def target(self) -> str:
        return _target(self.options)

    @property
    def key_columns(self) -> tuple[str, ...]:
        return self.options.key

    def validate_schema(self, schema: pa.Schema) -> None:
        super().validate_schema(schema)
        table = _described(self.options)
        if STAMP in schema.names:
            raise BadConfigurationError(f"the column '{STAMP}' is the connector's own: leave it out of the rows")
        _check_columns(table, schema, also=[STAMP])
        if not any(set(unique) == set(self.options.key) for unique in table.unique):
            raise BadConfigurationError(
                f"option 'key': table {table} has no unique key of exactly the columns {', '.join(self.options.key)}"
            )

    def start(self, context: SinkContext) -> PostgresUpsertSink:
        with lent(self.options.server) as connection:
            table = describe(connection, self.options.table)
            add_stamp(connection, table)
        return replace(self, table=table)

    def create_upserter(self, context: WriterContext) -> PostgresUpserter:
        assert self.table is not None, "the sink was not started"
        return PostgresUpserter(self.options.server, self.table, self.options.key)


def create_sink(options: SinkOptions, schema: pa.Schema) -> Sink:
    """Makes the sink for rows of ``schema``. Driver."""
    if options.delivery == "upsert":
        return PostgresUpsertSink(options)
    return PostgresTransactionalSink(options)


def _target(options: SinkOptions) -> str:
    server = options.server
    return f"{server.host}:{server.port}/{server.database}: {options.table}"


def _described(options: SinkOptions) -> Table:
    with lent(options.server) as connection:
        return describe(connection, options.table)


def _check_columns(table: Table, schema: pa.Schema, also: Collection[str] = ()) -> None:
    """Raises BadConfigurationError unless every column can be written, and every column that needs a value gets one."""
    for field in schema:
        column = table.column(field.name)
        if column.is_generated:
            raise BadConfigurationError(f"column '{field.name}' of table {table} is generated: leave it out")
        if not fits(field.type, column):
            known = "" if column.type_name in ENCODED else f" (known are {', '.join(sorted(ENCODED))})"
            raise BadConfigurationError(
                f"column '{field.name}' ({field.type}) can't be written as {column.type_name}{known}: cast it"
            )
    missing = [one.name for one in table.columns if one.must_be_given and one.name not in (*schema.names, *also)]
    if missing:
        raise BadConfigurationError(f"table {table} needs a value in {', '.join(missing)}, and the rows have none")
