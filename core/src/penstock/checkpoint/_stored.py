"""What a query's sink is, kept next to its decision log, so that it can be finished and inspected without the query."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock._commit import AnySink, Chain, TwoPhaseCommit, committables_of, start_sink
from penstock._plugins import find_connector
from penstock.checkpoint._identity import CheckpointIdentity, open_identity
from penstock.checkpoint._named import home_of, named_sinks, names_of
from penstock.checkpoint._spark_log import SparkLog
from penstock.connector import Connector
from penstock.errors import BadConfigurationError, FatalError
from penstock.options import OptionValues, held_by_checkpoint
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.serialization import malformed_is_bad_data
from penstock.sink import CheckpointLocation, SinkContext, TwoPhaseCommitSink
from penstock.storage import Storage, open_storage

__all__ = [
    "StoredQuery",
    "chain_of",
    "load_sink",
    "open_stored_queries",
    "open_stored_query",
    "query_id_of",
    "remember_sink",
    "store_sink",
]

FORMAT = 1
_LONGEST_NAME = 100


def chain_of(storage: Storage, checkpoint: str) -> Chain:
    """Returns the decision log of a checkpoint, or of a named sink's place below one."""
    return Chain(storage, f"{checkpoint}/penstock/decisions")


@dataclass(frozen=True)
class StoredQuery:
    """The sink of a checkpoint, rebuilt. ``checkpoint`` is the path in ``storage``.

    ``retry`` says for how long its store and its target are waited for. ``sink_name`` is that of a sink which a batch
    function writes to; empty for a query's only sink.
    """

    connector_name: str
    query_id: str
    sink: AnySink
    schema: pa.Schema
    storage: Storage
    checkpoint: str
    retry: RetryPolicy = NO_RETRIES
    sink_name: str = ""

    @property
    def home(self) -> str:
        """Where the sink keeps what it has: the checkpoint, or its own place below it."""
        return home_of(self.checkpoint, self.sink_name)

    @property
    def chain(self) -> Chain:
        """Its decision log."""
        return chain_of(self.storage, self.home)

    @property
    def names(self) -> str:
        """What its names at the target begin with."""
        return names_of(self.place.names, self.sink_name)

    @property
    def spark_log(self) -> SparkLog:
        """What Spark has planned and committed."""
        return SparkLog(self.storage, self.checkpoint)

    @property
    def place(self) -> CheckpointIdentity:
        """Where it is at home. Raises BadConfigurationError as :func:`open_identity` does."""
        return open_identity(self.storage, self.checkpoint, self.query_id)

    @property
    def protocol(self) -> TwoPhaseCommit:
        """The driver's side of its commit protocol. Starts the sink: the target system is looked at."""
        location = CheckpointLocation(self.storage, self.home)
        context = SinkContext(self.names, self.schema, checkpoint=location, retry=self.retry)
        return TwoPhaseCommit(start_sink(self.sink, context), context, self.chain, in_batch=bool(self.sink_name))

    def pending_committables(self) -> list[Any]:
        """Returns what was decided and is not noted as published."""
        head = self.chain.head()
        if head.pending is None:
            return []
        stored = committables_of(self.chain.read(head.pending).outputs)
        return [self.sink.committable_serializer.unpack(one) for one in stored]

    def has_open_work(self) -> bool:
        """Returns whether something is carried on, or a decision is pending."""
        head = self.chain.head()
        return bool(head.link.states) or head.pending is not None


def _sink_path(checkpoint: str) -> str:
    return f"{checkpoint}/penstock/sink.json"


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

    Compares the options with those of the run before, and raises as :func:`penstock.options.held_by_checkpoint` does.
    """
    path = _sink_path(checkpoint)
    stored = _stored_sink(storage, path)
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


def open_stored_query(
    checkpoint: str, options: Mapping[str, str] | None = None, *, waits: bool = False, sink_name: str = ""
) -> StoredQuery:
    """Returns the query of ``checkpoint`` (a path or URL), read only. ``options`` adds what was secret, and replaces
    the rest. ``waits``: whether what fails is tried again, as the query's ``retryTimeout`` says. ``sink_name``: which
    of the sinks that its batch function writes to is meant.

    Raises BadConfigurationError if it is no checkpoint, or not of a Penstock sink.
    """
    storage, path = open_storage(checkpoint, options, RetryPolicy() if waits else NO_RETRIES)
    query_id = query_id_of(storage, path)
    try:
        connector, sink, schema, retry = load_sink(storage, _sink_path(home_of(path, sink_name)), options)
    except FileNotFoundError:
        raise BadConfigurationError(_no_sink(storage, path, checkpoint, sink_name)) from None
    if not waits:
        retry = NO_RETRIES
    return StoredQuery(connector, query_id, sink, schema, storage.retrying(retry), path, retry, sink_name)


def _no_sink(storage: Storage, path: str, checkpoint: str, sink_name: str) -> str:
    others = ", ".join(named_sinks(storage, path))
    if sink_name:
        return (
            f"{checkpoint}: no sink named '{sink_name}' has written with it{f'; there is {others}' if others else ''}"
        )
    if others:
        return f"{checkpoint}: its sinks are written to by a batch function: name one of {others}"
    return f"{checkpoint}: no penstock sink has written with this checkpoint yet (penstock/sink.json is missing)"


def open_stored_queries(
    checkpoint: str, options: Mapping[str, str] | None = None, *, waits: bool = False, sink_name: str = ""
) -> list[StoredQuery]:
    """Returns every sink that has written with ``checkpoint``: its only one, or those of its batch function; or the one
    that is named. Raises as :func:`open_stored_query` does.
    """
    storage, path = open_storage(checkpoint, options, RetryPolicy() if waits else NO_RETRIES)
    query_id_of(storage, path)
    names = [] if sink_name else named_sinks(storage, path)
    if names and storage.exists(_sink_path(path)):
        names.insert(0, "")
    return [open_stored_query(checkpoint, options, waits=waits, sink_name=name) for name in names or [sink_name]]


def load_sink(
    storage: Storage, path: str, options: Mapping[str, str] | None
) -> tuple[str, AnySink, pa.Schema, RetryPolicy]:
    """Returns the inverse of :func:`store_sink`: the connector's name, the sink, the schema of its rows, and for how
    long the sink is waited for.

    Raises FileNotFoundError, and BadConfigurationError if there is no such sink any more.
    """
    given, where = dict(options or {}), storage.url(path)
    name, options_of_run, schema = _parsed_sink(storage.read(path), where)
    connector: Connector = find_connector(name).load()
    if connector.sink_options is None:
        raise BadConfigurationError(f"{where}: connector '{name}' has no sink any more")
    lower = {one.lower() for one in given}
    texts = {one: text for one, text in options_of_run.items() if one.lower() not in lower} | given
    parsed = connector.sink_options.parse(texts, owner=f"sink penstock.{name}")
    sink = connector.create_sink(parsed, schema)
    if not isinstance(sink, TwoPhaseCommitSink):
        raise BadConfigurationError(f"{where}: its sink commits nothing with these options (delivery)")
    return name, sink, schema, RetryPolicy.from_values(parsed)


def _parsed_sink(data: bytes, where: str) -> tuple[str, dict[str, str], pa.Schema]:
    """Returns the connector's name, the options and the schema."""
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
        return str(stored["connector"]), options, schema


def _check_names(fields: Iterable[pa.Field]) -> None:
    """Arrow reads a name only when it is asked for; one may not be UTF-8."""
    for field in fields:
        _ = field.name
        _check_names(field.type.field(index) for index in range(field.type.num_fields))
