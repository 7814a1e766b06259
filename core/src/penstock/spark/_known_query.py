"""What a driver's process knows of the queries whose batches it plans or commits: read once, not with every batch."""

from __future__ import annotations

from collections import OrderedDict

import pyarrow as pa

from penstock._commit import RunMemory
from penstock.checkpoint import (
    CheckpointIdentity,
    SparkLog,
    chain_of,
    home_of,
    names_of,
    open_identity,
    query_id_of,
    remember_sink,
)
from penstock.options import OptionValues
from penstock.storage import Storage

__all__ = ["KnownQuery", "QueryReplacedError", "forget_query", "known_query"]

_MOST = 64


class KnownQuery:
    """One sink of one query. Single thread: Spark gives a process one thing to do at a time.

    ``home`` is where the sink keeps what it has, ``names`` what its names at the target begin with.
    """

    def __init__(self, storage: Storage, checkpoint: str, sink: str = "") -> None:
        self.storage = storage
        self.checkpoint = checkpoint
        self.home = home_of(checkpoint, sink)
        self.query_id = query_id_of(storage, checkpoint)
        place: CheckpointIdentity = open_identity(storage, checkpoint, self.query_id)
        self.names = names_of(place.names, sink)
        self.spark_log = SparkLog(storage, checkpoint)
        self.chain = chain_of(storage, self.home)
        self.memory = RunMemory()

    def begin(self, connector: str, options: OptionValues, schema: pa.Schema) -> None:
        """A run begins. Raises QueryReplacedError if the checkpoint was deleted and is another query's now."""
        self.begin_group()
        remember_sink(self.storage, self.home, connector, options, schema)

    def begin_group(self) -> None:
        """A run begins, whose sinks are remembered one by one. Raises as :meth:`begin` does."""
        if query_id_of(self.storage, self.checkpoint) != self.query_id:
            raise QueryReplacedError
        self.storage.sweep(f"{self.home}/penstock")


class QueryReplacedError(Exception):
    """What is known is of a query whose checkpoint is gone."""


_known: OrderedDict[str, KnownQuery] = OrderedDict()


def known_query(
    storage: Storage, checkpoint: str, *, sink: str = "", names: str | None = None, query_id: str = ""
) -> KnownQuery:
    """Returns the query's sink as this process knows it.

    ``names``, its name at the target, and ``query_id`` are given where they are known: the checkpoint is read again if
    what is known is another query's, whose checkpoint has been deleted since.
    """
    key = storage.url(home_of(checkpoint, sink))
    found = _known.pop(key, None)
    if found is None or names not in (None, found.names) or query_id not in ("", found.query_id):
        found = KnownQuery(storage, checkpoint, sink)
    _known[key] = found
    while len(_known) > _MOST:
        _known.popitem(last=False)
    return found


def forget_query(query: KnownQuery) -> None:
    """Forgets ``query``: the next call reads everything again."""
    _known.pop(query.storage.url(query.home), None)
