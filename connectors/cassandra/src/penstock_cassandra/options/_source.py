"""The source's options as the source uses them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.options import OptionValues
from penstock_cassandra.client import ConnectionSettings
from penstock_cassandra.options._connection import connection_settings, names

__all__ = ["SourceOptions"]


@dataclass(frozen=True)
class SourceOptions:
    """Checked, typed, picklable. Holds secrets in ``connection``; the repr hides them."""

    connection: ConnectionSettings
    keyspace: str
    table: str
    query: str
    where: str
    ttl_columns: tuple[str, ...]
    writetime_columns: tuple[str, ...]
    max_split_bytes: int
    splits: int | None
    max_splits_per_trigger: int
    page_bytes: int
    page_rows: int | None
    max_in_flight: int
    max_rows_per_second: int | None

    @classmethod
    def from_values(cls, values: OptionValues) -> SourceOptions:
        """Raises BadConfigurationError for values that can't be used."""
        return cls(
            connection=connection_settings(values),
            keyspace=values["keyspace"] or "",
            table=values["table"] or "",
            query=values["query"] or "",
            where=values["where"] or "",
            ttl_columns=names(values["ttlColumns"]),
            writetime_columns=names(values["writetimeColumns"]),
            max_split_bytes=values["maxSplitSize"],
            splits=values["splits"],
            max_splits_per_trigger=values["maxSplitsPerTrigger"],
            page_bytes=values["pageBytes"],
            page_rows=values["pageRows"],
            max_in_flight=values["maxInFlight"],
            max_rows_per_second=values["maxRowsPerSecond"],
        )
