"""Dead letters in tests: a folder that takes them, and what is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock._letters import create_sink
from penstock.connector import Connector
from penstock.sink import Sink

__all__ = ["LETTER_TABLE", "letters_in", "refused_rows", "sink_with_letters", "to_folder"]


#: The columns of a table of Cassandra's that takes dead letters.
LETTER_TABLE = """source text, id text, error text, stage text, connector text, partition bigint, offset bigint,
    timestamp timestamp, key blob, value blob, headers frozen<list<frozen<tuple<text, blob>>>>,
    primary key (source, id)"""


def to_folder(folder: Path) -> dict[str, str]:
    """Returns the options that send dead letters to a folder."""
    return {"deadLetters.format": "filesystem", "deadLetters.path": str(folder)}


def sink_with_letters(connector: Connector, schema: pa.Schema, options: dict[str, str]) -> Sink:
    """Returns the sink of ``options``, as the engine makes it."""
    assert connector.sink_options is not None
    return create_sink(connector, connector.sink_options.parse(options, owner="sink"), schema)


def letters_in(folder: Path) -> list[dict[str, Any]]:
    """Returns the letters that readers of a folder see."""
    files = sorted(path for path in folder.glob("*") if path.is_file() and not path.name.startswith((".", "_")))
    return [row for path in files for row in pq.read_table(path, partitioning=None).to_pylist()]


def refused_rows(folder: Path) -> list[tuple[dict[str, Any], str]]:
    """Returns the rows that a sink has refused, each with the reason."""
    return [(json.loads(letter["value"]), letter["error"]) for letter in letters_in(folder)]
