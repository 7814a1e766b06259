"""What users may set, declared as data, and the checked values made from it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.options import Option, OptionSet, OptionValues, common_option, when
from penstock_postgres.client import Server

__all__ = ["SINK_OPTIONS", "SOURCE_OPTIONS", "SinkOptions", "SourceOptions"]

_WHERE = (
    Option("host", "Name of the server, or the folder of its Unix socket", default="localhost"),
    Option("port", "Port of the server", kind="int", default="5432", minimum=1, maximum=65535),
    Option("database", "Name of the database", required=True),
    Option("table", 'Name of the table as in SQL: orders, shop.orders, "Orders"', required=True),
    common_option("user"),
    common_option("password"),
    Option("tls", "Connect with TLS", kind="bool", default="false"),
    common_option("tls.caFile", "; without it those of the system", needs=(when("tls"),)),
    common_option("tls.checkHostname", needs=(when("tls"), when("tls.caFile"))),
    common_option("requestTimeout", "; also how long a statement waits for a lock"),
)

SINK_OPTIONS = OptionSet(
    [
        *_WHERE,
        common_option("delivery", choices=("exactly-once", "upsert"), default="exactly-once"),
        Option(
            "key",
            "Columns of a unique key, comma-separated: a row replaces the row with the same values",
            needs=(when("delivery", "upsert"),),
            required_with=(when("delivery", "upsert"),),
        ),
    ]
)

SOURCE_OPTIONS = OptionSet(
    [
        *_WHERE,
        Option(
            "splitColumn",
            "A column of whole numbers or text with a unique key; default: the primary key",
            at_restart="refused",
        ),
        Option("rowsPerSplit", "Most rows in a split", kind="int", default="100000", minimum=1),
        common_option("maxRowsPerTrigger"),
        common_option("failOnDataLoss", "; rows that changed are then read as they are"),
    ]
)


@dataclass(frozen=True)
class SinkOptions:
    """Checked values of :data:`SINK_OPTIONS`."""

    server: Server
    table: str
    delivery: str
    key: tuple[str, ...]

    @classmethod
    def from_values(cls, values: OptionValues) -> SinkOptions:
        """Raises BadConfigurationError for values that do not go together."""
        key = tuple(name.strip() for name in (values["key"] or "").split(",") if name.strip())
        return cls(_server(values), values["table"], values["delivery"], key)


@dataclass(frozen=True)
class SourceOptions:
    """Checked values of :data:`SOURCE_OPTIONS`."""

    server: Server
    table: str
    split_column: str | None
    rows_per_split: int
    max_rows: int | None
    fail_on_data_loss: bool

    @classmethod
    def from_values(cls, values: OptionValues) -> SourceOptions:
        """Raises BadConfigurationError for values that do not go together."""
        return cls(
            _server(values),
            values["table"],
            values["splitColumn"],
            values["rowsPerSplit"],
            values["maxRowsPerTrigger"],
            values["failOnDataLoss"],
        )


def _server(values: OptionValues) -> Server:
    return Server(
        values["host"],
        values["port"],
        values["database"],
        values["user"],
        values["password"],
        values["tls"],
        values["tls.caFile"],
        values["tls.checkHostname"],
        values["requestTimeout"] / 1000,
    )
