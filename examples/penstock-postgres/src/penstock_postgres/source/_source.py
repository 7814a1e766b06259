"""A table as a bounded source."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.source import EnumeratorContext, ReaderContext, ReadLimits, Source, check_columns
from penstock_postgres._options import SourceOptions
from penstock_postgres.client import Table, describe, lent, read_type
from penstock_postgres.source._emitter import PostgresRecordEmitter
from penstock_postgres.source._enumerator import PostgresSplitEnumerator
from penstock_postgres.source._reader import PostgresSplitReader
from penstock_postgres.source._split import SPLIT_SERIALIZER, STATE_SERIALIZER, Position, PostgresSplit

__all__ = ["PostgresSource"]

_KEYS = ("int2", "int4", "int8", "text", "varchar")


@dataclass(frozen=True)
class PostgresSource(Source[PostgresSplit, Position]):
    """The rows that are there when it is first looked at. Each use looks the table up: its columns are not kept."""

    options: SourceOptions
    split_serializer = SPLIT_SERIALIZER
    enumerator_serializer = STATE_SERIALIZER

    def _look(self) -> tuple[Table, str]:
        with lent(self.options.server) as connection:
            table = describe(connection, self.options.table)
        alone = [names[0] for names in table.unique if len(names) == 1 and table.column(names[0]).type_name in _KEYS]
        key = self.options.split_column or (alone[0] if alone else None)
        if key not in alone:
            raise BadConfigurationError(
                f"option 'splitColumn' must name a column of whole numbers or text that is alone in a unique key of "
                f"table {table}; there is {', '.join(alone) or 'none'}"
            )
        return table, key

    def fixed_schema(self) -> pa.Schema:
        table, _ = self._look()
        return pa.schema([(one.name, read_type(one)[0]) for one in table.columns])

    def validate_schema(self, schema: pa.Schema) -> None:
        check_columns(schema, self.fixed_schema())

    def read_limits(self) -> ReadLimits:
        return ReadLimits(max_records=self.options.max_rows)

    def create_enumerator(self, context: EnumeratorContext, checkpoint: Position | None) -> PostgresSplitEnumerator:
        return PostgresSplitEnumerator(self.options, *self._look(), checkpoint)

    def create_reader(self, context: ReaderContext) -> PostgresSplitReader:
        return PostgresSplitReader(self.options, *self._look(), context.schema)

    def create_emitter(self, context: ReaderContext) -> PostgresRecordEmitter:
        return PostgresRecordEmitter()
