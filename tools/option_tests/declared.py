"""The options that connectors declare, and the tests that were found for them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock._plugins import find_connector
from penstock.options import DEAD_LETTER_OPTIONS, OF_THE_ENGINE, Mode, Option, OptionSet
from penstock.storage import STORAGE_OPTIONS
from suite.option_cases import cases

__all__ = [
    "CONNECTORS",
    "SEEN",
    "TABLE",
    "USES",
    "Declared",
    "declared_options",
    "check_uses",
    "declared_uses",
    "read_table",
    "read_uses",
    "write_table",
]

CONNECTORS = ("filesystem", "kafka", "cassandra", "pravega")
TABLE = Path(__file__).with_name("tests.json")
#: Side → use → option → "read", "refused", "warned of", or "-" and the reason why the use reads nothing of it.
USES = Path(__file__).with_name("uses.json")
#: Uses with which not every delivery goes: a function of foreachBatch has numbered batches, which only exactly-once
#: takes, and write-ahead keeps rows in the checkpoint of a stream.
DELIVERIES = {"foreachBatch": ("exactly-once",), "batch write": ("none", "at-least-once", "exactly-once")}
#: What a use can be found to do with an option; whatever else is found needs a reason.
SEEN = ("read", "refused", "warned of")
#: How the options of each use are parsed.
READING: dict[str, Mode] = {"batch read": "batch", "stream read": "stream", "restart": "stream"}
WRITING: dict[str, Mode] = {"batch write": "batch", "stream write": "stream", "foreachBatch": "batch"}


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


def declared_uses(side: str) -> Iterator[tuple[str, Mode, Option]]:
    """Yields, for "kafka source" say, each use with each option that takes effect in it, and how options are parsed.

    What is written has a use for each delivery that can be chosen, such as "stream write, exactly-once". The options of
    the engine and those of stores have tests that serve all connectors.
    """
    known = cases(side)
    delivery = known.declared.find("delivery")
    for use, mode in _each(READING if side.endswith(" source") else WRITING, delivery.choices if delivery else ()):
        for option in known.declared:
            if option in STORAGE_OPTIONS or option in DEAD_LETTER_OPTIONS or option.name in OF_THE_ENGINE:
                continue
            is_kept = use == "restart" and option.at_restart != "takes effect"
            if not (option.ignored or is_kept) and known.texts(option) and mode in known.modes(option):
                yield use, mode, option


def _each(uses: Mapping[str, Mode], deliveries: Sequence[str]) -> Iterator[tuple[str, Mode]]:
    for use, mode in uses.items():
        chosen = [one for one in deliveries if one in DELIVERIES.get(use, deliveries)]
        yield from ((f"{use}, {delivery}", mode) for delivery in chosen) if deliveries else [(use, mode)]


def read_uses() -> dict[str, dict[str, dict[str, str]]]:
    """Returns the table of :data:`USES`."""
    table: dict[str, dict[str, dict[str, str]]] = json.loads(USES.read_text())
    return table


def check_uses(side: str, found: Mapping[str, Mapping[str, str]]) -> None:
    """Compares what the uses of a side were found to read with the table, where a person gives the reason for each
    option that is not read. With ``REWRITE_USES`` in the environment, notes what is read.
    """
    table = read_uses()
    noted = table.setdefault(side, {})
    if os.environ.get("REWRITE_USES"):
        for use in noted.keys() - found.keys():
            del noted[use]
        for use, options in found.items():
            reasons = {name: why for name, why in noted.get(use, {}).items() if why.startswith("-")}
            noted[use] = {**{name: said for name, said in options.items() if said in SEEN}, **reasons}
        USES.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
    pairs = {(use, name): said for use, options in found.items() for name, said in options.items()}
    told = {(use, name): said for use, options in noted.items() for name, said in options.items()}
    assert told.keys() <= pairs.keys(), "some are not declared any more"
    # What is neither read nor refused has a reason; nothing else has one.
    wrong = [
        f"{use}: {name}: {said}; noted: {told.get((use, name))}"
        for (use, name), said in pairs.items()
        if not (told.get((use, name)) == said if said in SEEN else told.get((use, name), "").startswith("-"))
    ]
    assert not wrong, "\n" + "\n".join(wrong)
