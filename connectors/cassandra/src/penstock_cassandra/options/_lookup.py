"""The lookup's options as the lookup uses them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.options import OptionValues
from penstock.retry import RetryPolicy
from penstock_cassandra.client import ConnectionSettings
from penstock_cassandra.options._connection import connection_settings

__all__ = ["LookupOptions"]


@dataclass(frozen=True)
class LookupOptions:
    """Checked, typed, picklable. Holds secrets in ``connection``; the repr hides them."""

    connection: ConnectionSettings
    keyspace: str
    table: str
    retry: RetryPolicy

    @classmethod
    def from_values(cls, values: OptionValues) -> LookupOptions:
        """Raises BadConfigurationError for what does not go together."""
        return cls(
            connection=connection_settings(values),
            keyspace=values["keyspace"],
            table=values["table"],
            retry=RetryPolicy.from_values(values),
        )
