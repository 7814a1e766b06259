"""A query's sinks, opened from its checkpoint alone: to be finished and inspected without the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock._commit import AnySink, Chain, TwoPhaseCommit, committables_of, start_sink
from penstock.checkpoint._groups import load_group, members_of, options_by_member
from penstock.checkpoint._identity import CheckpointIdentity, open_identity
from penstock.checkpoint._named import home_of, named_sinks, names_of
from penstock.checkpoint._spark_log import SparkLog
from penstock.checkpoint._stored import StoredSink, chain_of, load_sink, query_id_of, read_sink, sink_path
from penstock.errors import BadConfigurationError
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.sink import CheckpointLocation, SinkContext, SinkUnion
from penstock.storage import Storage, open_storage

__all__ = ["StoredPart", "StoredQuery", "open_stored_queries", "open_stored_query", "stored_sink_of"]

_NO_SCHEMA = pa.schema([])


@dataclass(frozen=True)
class StoredPart:
    """A member of a group, or a query's sink, which is its own only part and has no ``name``.

    ``names`` is what its names at the target begin with; ``pending`` what was decided and is not noted as published.
    """

    name: str
    sink: AnySink
    names: str
    pending: list[Any]


@dataclass(frozen=True)
class StoredQuery:
    """The sink of a checkpoint, rebuilt. ``checkpoint`` is the path in ``storage``.

    ``retry`` says for how long its store and its target are waited for. ``sink_name`` is that of a sink which a batch
    function writes to; empty for a query's only sink. ``is_group``: whether it stands for several, which are committed
    together.
    """

    connector_name: str
    query_id: str
    sink: AnySink
    schema: pa.Schema
    storage: Storage
    checkpoint: str
    retry: RetryPolicy = NO_RETRIES
    sink_name: str = ""
    is_group: bool = False

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

    def parts(self) -> list[StoredPart]:
        """Returns the members of a group, each with its own of what is pending; of any other sink, itself."""
        pending = self.pending_committables()
        if not isinstance(self.sink, SinkUnion):
            return [StoredPart("", self.sink, self.names, pending)]
        return [
            StoredPart(
                member.name,
                member.sink,
                member.names_in(self.names),
                [one.value for one in pending if one.member == member.name],
            )
            for member in self.sink.members.values()
        ]

    def has_open_work(self) -> bool:
        """Returns whether something is carried on, or a decision is pending."""
        head = self.chain.head()
        return bool(head.link.states) or head.pending is not None


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
    home = home_of(path, sink_name)
    connector: str
    sink: AnySink
    members = members_of(storage, home) if sink_name else None
    if members is not None:
        sink, retry = load_group(storage, home, members, options_by_member(options or {}, members))
        connector, schema = f"group of {', '.join(members)}", _NO_SCHEMA
    else:
        try:
            connector, sink, schema, retry = load_sink(storage, sink_path(home), options)
        except FileNotFoundError:
            raise BadConfigurationError(_no_sink(storage, path, checkpoint, sink_name)) from None
    if not waits:
        retry = NO_RETRIES
    storage = storage.retrying(retry)
    return StoredQuery(connector, query_id, sink, schema, storage, path, retry, sink_name, members is not None)


def stored_sink_of(
    checkpoint: str, options: Mapping[str, str] | None = None, *, sink_name: str = ""
) -> StoredSink | None:
    """Returns a sink of ``checkpoint`` as it is stored, with ``options`` as :func:`open_stored_query` takes them;
    ``None`` if the query has stored none. ``sink_name`` is that of a batch function's sink, or ``GROUP/MEMBER``.

    Raises BadConfigurationError if it is no checkpoint, or has no sink of that name.
    """
    storage, path = open_storage(checkpoint, options, NO_RETRIES)
    query_id_of(storage, path)
    group, _, member = sink_name.partition("/")
    home = home_of(path, group)
    try:
        return read_sink(storage, sink_path(f"{home}/{member}".rstrip("/")), options)
    except FileNotFoundError:
        if sink_name or named_sinks(storage, path):
            raise BadConfigurationError(_no_sink(storage, path, checkpoint, sink_name)) from None
        return None


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
    if names and storage.exists(sink_path(path)):
        names.insert(0, "")
    return [open_stored_query(checkpoint, options, waits=waits, sink_name=name) for name in names or [sink_name]]
