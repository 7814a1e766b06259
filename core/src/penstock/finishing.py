"""What a query's sink is, kept beside its decision log, so that it can be finished and inspected without the query."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import BadConfigurationError, FatalError
from penstock.options import OptionValues
from penstock.plugins import Connector, find_connector
from penstock.sink import CheckpointLocation, SinkContext, TwoPhaseCommitSink
from penstock.sink.decision_log import Decision, DecisionLog
from penstock.sink.two_phase import AnySink, TwoPhaseCommit
from penstock.storage import Storage, open_storage

__all__ = ["StoredQuery", "finish", "open_stored_query", "query_id_of", "remember_sink"]

FORMAT = 1


@dataclass(frozen=True)
class StoredQuery:
    """The sink of a checkpoint, rebuilt. ``checkpoint`` is the path in ``storage``."""

    connector_name: str
    query_id: str
    sink: AnySink
    schema: pa.Schema
    storage: Storage
    checkpoint: str

    @property
    def log(self) -> DecisionLog:
        """Its decision log."""
        return DecisionLog(self.storage, self.checkpoint)

    @property
    def protocol(self) -> TwoPhaseCommit:
        """The driver's side of its commit protocol. Starts the sink: the target system is looked at."""
        location = CheckpointLocation(self.storage, self.checkpoint)
        context = SinkContext(self.query_id, self.schema, checkpoint=location)
        return TwoPhaseCommit(self.sink.start(context), context, self.log)

    def has_open_work(self) -> bool:
        """Whether something is carried on, or a decision is pending."""
        head = self.log.head()
        return bool(head.states) or not head.done


def _sink_path(checkpoint: str) -> str:
    return f"{checkpoint}/penstock/sink.json"


def query_id_of(storage: Storage, checkpoint: str) -> str:
    """The id that Spark gave the query, from ``<checkpoint>/metadata``. Raises BadConfigurationError without one."""
    try:
        return str(json.loads(storage.read(f"{checkpoint}/metadata"))["id"])
    except (FileNotFoundError, NotADirectoryError):
        raise BadConfigurationError(
            f"{storage.url(checkpoint)} is not the checkpoint of a streaming query: it has no 'metadata' file"
        ) from None


def remember_sink(storage: Storage, checkpoint: str, connector: str, options: OptionValues, schema: pa.Schema) -> None:
    """Stores what :func:`open_stored_query` needs; secret options are left out. Writes only if something changed."""
    schema_text = base64.b64encode(schema.serialize().to_pybytes()).decode("ascii")
    value = {"format": FORMAT, "connector": connector, "options": options.texts(secrets=False), "schema": schema_text}
    data = json.dumps(value, sort_keys=True, indent=1).encode()
    path = _sink_path(checkpoint)
    try:
        unchanged = storage.read(path) == data
    except FileNotFoundError:
        unchanged = False
    if not unchanged:
        storage.put(path, data)


def open_stored_query(checkpoint: str, options: Mapping[str, str] | None = None) -> StoredQuery:
    """The query of ``checkpoint`` (a path or URL), read only. ``options`` adds what was secret, and replaces the rest.

    Raises BadConfigurationError if it is no checkpoint, or not of a Penstock sink.
    """
    given = dict(options or {})
    s3 = {name[3:]: text for name, text in given.items() if name.lower().startswith("s3.")}
    storage, path = open_storage(checkpoint, s3)
    query_id = query_id_of(storage, path)
    try:
        stored = json.loads(storage.read(_sink_path(path)))
    except FileNotFoundError:
        raise BadConfigurationError(
            f"{checkpoint}: no penstock sink has written with this checkpoint yet (penstock/sink.json is missing)"
        ) from None
    if stored["format"] > FORMAT:
        raise FatalError(f"{checkpoint}: penstock/sink.json was written by a newer penstock: upgrade this one")
    connector: Connector = find_connector(stored["connector"]).load()
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(stored["schema"])))
    if connector.sink_options is None:
        raise BadConfigurationError(f"{checkpoint}: connector '{stored['connector']}' has no sink any more")
    lower = {name.lower() for name in given}
    texts = {name: text for name, text in stored["options"].items() if name.lower() not in lower} | given
    parsed = connector.sink_options.parse(texts, owner=f"sink penstock.{stored['connector']}")
    sink = connector.create_sink(parsed, schema)
    if not isinstance(sink, TwoPhaseCommitSink):
        raise BadConfigurationError(f"{checkpoint}: its sink commits nothing with these options (delivery)")
    return StoredQuery(stored["connector"], query_id, sink, schema, storage, path)


def finish(checkpoint: str, options: Mapping[str, str] | None = None) -> list[Decision]:
    """Closes and publishes everything that a query has committed and still holds open. Returns the decisions made.

    Any process that reaches checkpoint and target may call it, also while the query runs: it then gives way to a batch
    that commits at the same moment. A batch that the query had planned and not decided is left to its restart. Rows
    still open are merged in this process, in bounded memory. Raises as :func:`open_stored_query` does.
    """
    query = open_stored_query(checkpoint, options)
    protocol = query.protocol
    before = query.log.head()
    made = [] if before.done else [protocol.recover()]
    while (decision := protocol.roll(finish=True)) is not None:
        made.append(decision)
    protocol.clean_up()
    return made
