"""What a query's sink is, kept next to its decision log, so that it can be finished and inspected without the query."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock._commit import AnySink, Chain
from penstock._letters import create_sink
from penstock._plugins import find_connector
from penstock.connector import Connector
from penstock.error_codes import NAMES_IN_BATCH
from penstock.errors import BadConfigurationError, FatalError
from penstock.options import OptionValues, held_by_checkpoint
from penstock.retry import RetryPolicy
from penstock.serialization import malformed_is_bad_data
from penstock.sink import TwoPhaseCommitSink
from penstock.storage import Storage

__all__ = [
    "SinkForm",
    "StoredSink",
    "chain_of",
    "group_path",
    "load_sink",
    "make_sink",
    "name_is_taken",
    "query_id_of",
    "read_form",
    "read_sink",
    "remember_sink",
    "sink_path",
    "store_sink",
]

FORMAT = 1
_LONGEST_NAME = 100


def chain_of(storage: Storage, checkpoint: str) -> Chain:
    """Returns the decision log of a checkpoint, or of a named sink's place below one."""
    return Chain(storage, f"{checkpoint}/penstock/decisions")


def sink_path(checkpoint: str) -> str:
    """Returns where a sink is stored."""
    return f"{checkpoint}/penstock/sink.json"


def group_path(checkpoint: str) -> str:
    """Returns where the members of a group are stored, in place of a sink."""
    return f"{checkpoint}/penstock/group.json"


def name_is_taken(home: str, owner: str) -> BadConfigurationError:
    """Returns the error of a group and a sink with one name: what one of them has decided, the other would skip."""
    return BadConfigurationError(
        f"the name '{home.rpartition('/')[2]}' is that of {owner} of this query already: give each penstock.SinkGroup "
        "and each penstock.batch_writer of a query a name of its own",
        error_code=NAMES_IN_BATCH,
    )


def query_id_of(storage: Storage, checkpoint: str) -> str:
    """Returns the id that Spark gave the query, from ``<checkpoint>/metadata``. Raises BadConfigurationError without
    one.
    """
    path = f"{checkpoint}/metadata"
    try:
        with malformed_is_bad_data(storage.url(path)):
            return str(json.loads(storage.read(path))["id"])
    except (FileNotFoundError, NotADirectoryError):
        raise BadConfigurationError(
            f"{storage.url(checkpoint)} is not the checkpoint of a streaming query: it has no 'metadata' file"
        ) from None


def remember_sink(storage: Storage, checkpoint: str, connector: str, options: OptionValues, schema: pa.Schema) -> None:
    """Stores what :func:`open_stored_query` needs; secret options are left out. Writes only if something changed.

    Compares the options with those of the run before, and raises as :func:`penstock.options.held_by_checkpoint` does;
    also BadConfigurationError where a group of sinks is stored.
    """
    path = sink_path(checkpoint)
    stored = _stored_sink(storage, path)
    if stored is None and storage.exists(group_path(checkpoint)):
        raise name_is_taken(checkpoint, "a group")
    with malformed_is_bad_data(storage.url(path)):
        before = json.loads(stored) if stored else {}
        known = before.get("held", before["options"]) if before.get("connector") == connector else None
    held = held_by_checkpoint(options, known, owner=f"sink penstock.{connector}")
    value = _sink_value(connector, options, schema)
    # Only while an option is ignored: otherwise it is what the options say.
    if known is not None and held != held_by_checkpoint(options, None, owner=""):
        value["held"] = held
    _put_sink(storage, path, value, stored)


def store_sink(storage: Storage, path: str, connector: str, options: OptionValues, schema: pa.Schema) -> None:
    """Stores a sink as the file ``path``; secret options are left out. Writes only if something changed."""
    _put_sink(storage, path, _sink_value(connector, options, schema), _stored_sink(storage, path))


def _sink_value(connector: str, options: OptionValues, schema: pa.Schema) -> dict[str, Any]:
    schema_text = base64.b64encode(schema.serialize().to_pybytes()).decode("ascii")
    return {"format": FORMAT, "connector": connector, "options": options.texts(secrets=False), "schema": schema_text}


def _stored_sink(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except FileNotFoundError:
        return None


def _put_sink(storage: Storage, path: str, value: Mapping[str, Any], before: bytes | None) -> None:
    data = json.dumps(value, sort_keys=True, indent=1).encode()
    if data != before:
        storage.put(path, data)


@dataclass(frozen=True)
class StoredSink:
    """A sink as it is stored: the connector's name, the connector, its options, and the schema of the rows."""

    name: str
    connector: Connector
    options: OptionValues
    schema: pa.Schema


@dataclass(frozen=True)
class SinkForm:
    """What is stored of a sink: its connector's name, the options as texts, the rows' schema, and the file."""

    name: str
    texts: Mapping[str, str]
    schema: pa.Schema
    where: str

    def open(self, options: Mapping[str, str] | None) -> StoredSink:
        """Returns the sink with its connector. ``options`` adds what was secret, and replaces the rest: what it does
        not go with is left out.

        Raises BadConfigurationError if there is no such connector any more, or it refuses the options.
        """
        connector: Connector = find_connector(self.name).load()
        if connector.sink_options is None:
            raise BadConfigurationError(f"{self.where}: connector '{self.name}' has no sink any more")
        texts = connector.sink_options.completed(dict(options or {}), dict(self.texts))
        values = connector.sink_options.parse(texts, owner=f"sink penstock.{self.name}")
        return StoredSink(self.name, connector, values, self.schema)


def read_sink(storage: Storage, path: str, options: Mapping[str, str] | None) -> StoredSink:
    """Returns the inverse of :func:`store_sink`. Raises FileNotFoundError, and as :meth:`SinkForm.open` does."""
    return read_form(storage, path).open(options)


def load_sink(
    storage: Storage, path: str, options: Mapping[str, str] | None
) -> tuple[str, AnySink, pa.Schema, RetryPolicy]:
    """Returns what :func:`make_sink` does, from a file. Raises FileNotFoundError, and as that does."""
    return make_sink(read_form(storage, path), options)


def make_sink(form: SinkForm, options: Mapping[str, str] | None) -> tuple[str, AnySink, pa.Schema, RetryPolicy]:
    """Returns a stored sink, made: the connector's name, the sink, the schema of its rows, and for how long the sink is
    waited for. Raises as :meth:`SinkForm.open` does, and BadConfigurationError if it is no sink any more that commits.
    """
    stored = form.open(options)
    sink = create_sink(stored.connector, stored.options, stored.schema)
    if not isinstance(sink, TwoPhaseCommitSink):
        raise BadConfigurationError(f"{form.where}: its sink commits nothing with these options (delivery)")
    return stored.name, sink, stored.schema, RetryPolicy.from_values(stored.options)


def read_form(storage: Storage, path: str) -> SinkForm:
    """Returns what is stored of a sink. Raises FileNotFoundError, and BadDataError for what no version has written."""
    data, where = storage.read(path), storage.url(path)
    with malformed_is_bad_data(where):
        stored = json.loads(data)
        if stored["format"] > FORMAT:
            raise FatalError(f"{where} was written by a newer penstock: upgrade this one")
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(stored["schema"])))
            _check_names(schema)
        except (OSError, NotImplementedError) as error:  # what Arrow says of bytes that are no schema
            raise ValueError(f"its schema: {error}") from error
        options = {str(name): str(text) for name, text in stored["options"].items()}
        if not 0 < len(stored["connector"]) <= _LONGEST_NAME:
            raise ValueError("its connector has no name")
        return SinkForm(str(stored["connector"]), options, schema, where)


def _check_names(fields: Iterable[pa.Field]) -> None:
    """Arrow reads a name only when it is asked for; one may not be UTF-8."""
    for field in fields:
        _ = field.name
        _check_names(field.type.field(index) for index in range(field.type.num_fields))
