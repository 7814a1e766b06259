"""The options that connectors declare, and the tests that were found for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock._plugins import find_connector
from penstock.options import Option, OptionSet

__all__ = ["CONNECTORS", "TABLE", "Declared", "declared_options", "read_table", "write_table"]

CONNECTORS = ("filesystem", "kafka", "cassandra", "pravega")
TABLE = Path(__file__).with_name("tests.json")


@dataclass(frozen=True)
class Declared:
    """One option of one side of a connector. ``key`` names it in the table: "kafka source minPartitions"."""

    connector: str
    side: str
    option: Option
    among: OptionSet

    @property
    def key(self) -> str:
        """Connector, side and name."""
        return f"{self.connector} {self.side} {self.option.name}"


def declared_options(connector: str) -> list[Declared]:
    """Every option of the connector, the source's first."""
    made = find_connector(connector).load()
    sides = {"source": made.source_options, "sink": made.sink_options}
    return [Declared(connector, side, option, among) for side, among in sides.items() if among for option in among]


def read_table() -> dict[str, dict[str, str]]:
    """Connector → option's key → the id of its test, or "-" and the reason why there is none."""
    table: dict[str, dict[str, str]] = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    return table


def write_table(connector: str, found: Mapping[str, str]) -> None:
    """Writes what was found for one connector; the others stay."""
    table = {**read_table(), connector: dict(sorted(found.items()))}
    TABLE.write_text(json.dumps(dict(sorted(table.items())), indent=1, ensure_ascii=False) + "\n")
