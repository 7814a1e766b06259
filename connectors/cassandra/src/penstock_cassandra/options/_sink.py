"""The sink's options as the sink uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.options import OptionValues
from penstock.sink import ChangeColumns
from penstock_cassandra.client import ConnectionSettings
from penstock_cassandra.options._columns import Target, parse_columns
from penstock_cassandra.options._connection import connection_settings

__all__ = ["SinkOptions"]


@dataclass(frozen=True)
class SinkOptions:
    """Checked, typed, picklable. Holds secrets in ``connection``; the repr hides them."""

    connection: ConnectionSettings
    keyspace: str
    table: str
    statement: str
    delivery: str
    ttl: int | None
    ttl_column: str
    timestamp_us: int | None
    timestamp_column: str
    unset_nulls: bool
    columns: Mapping[str, Target]
    delete_column: str
    changes: ChangeColumns
    if_not_exists: bool
    batch_bytes: int
    grouping: str
    max_row_bytes: int
    max_in_flight: int
    max_rows_per_second: int | None
    checkpoint_keyspace: str

    @classmethod
    def from_values(cls, values: OptionValues) -> SinkOptions:
        """Raises BadConfigurationError for values that can't be used."""
        return cls(
            connection=connection_settings(values),
            keyspace=values["keyspace"] or "",
            table=values["table"] or "",
            statement=values["statement"] or "",
            delivery=values["delivery"],
            ttl=values["ttl"],
            ttl_column=values["ttlColumn"] or "",
            timestamp_us=values["timestamp"],
            timestamp_column=values["timestampColumn"] or values["orderColumn"] or "",
            unset_nulls=values["nulls"] == "unset",
            columns=parse_columns(values["columns"]) if values["columns"] else {},
            delete_column=values["deleteColumn"] or "",
            changes=ChangeColumns.from_values(values),
            if_not_exists=values["ifNotExists"],
            batch_bytes=values["batchBytes"],
            grouping=values["batchGrouping"],
            max_row_bytes=values["maxRowBytes"],
            max_in_flight=values["maxInFlight"],
            max_rows_per_second=values["maxRowsPerSecond"],
            checkpoint_keyspace=values["checkpointKeyspace"] or values["keyspace"] or "",
        )
