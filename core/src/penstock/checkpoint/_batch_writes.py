"""Batch writes that keep their decision log below what they write, so that another process can end them.

``<log>/sink.json`` is the sink, ``<log>/decisions/`` the chain; ``<log>`` is named by the write's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.checkpoint._stored import load_sink, s3_options, store_sink
from penstock.options import OptionValues
from penstock.sink import CheckpointLocation, SinkContext
from penstock.sink.chain import Chain
from penstock.sink.tasks import AnySink
from penstock.sink.two_phase import TwoPhaseCommit
from penstock.storage import Storage, open_storage

__all__ = ["HIDDEN_DIRECTORY", "StoredWrite", "forget_write", "remember_write", "stored_writes"]

#: Below the path that is written to. Readers skip names that begin with a dot.
HIDDEN_DIRECTORY = ".penstock"


def remember_write(log: CheckpointLocation, connector: str, options: OptionValues, schema: pa.Schema) -> Chain:
    """The chain of a batch write that begins."""
    store_sink(log.storage, f"{log.path}/sink.json", connector, options, schema)
    return Chain(log.storage, f"{log.path}/decisions")


def forget_write(log: CheckpointLocation) -> None:
    """Nobody asks for it again. What it is known by goes last."""
    names = log.storage.list_names(f"{log.path}/decisions")
    log.storage.delete(f"{log.path}/decisions/{name}" for name in names)
    log.storage.remove_empty(f"{log.path}/decisions")
    log.storage.delete([f"{log.path}/sink.json"])


@dataclass(frozen=True)
class StoredWrite:
    """A batch write that has not come to its end, or whose driver has not removed what it was kept by."""

    write_id: str
    sink: AnySink
    schema: pa.Schema
    log: CheckpointLocation

    def protocol(self) -> TwoPhaseCommit:
        """The driver's side of its commit protocol."""
        context = SinkContext(self.write_id, self.schema)
        return TwoPhaseCommit(self.sink.start(context), context, Chain(self.log.storage, f"{self.log.path}/decisions"))

    def forget(self) -> None:
        """After it has ended."""
        forget_write(self.log)
        committer = self.sink.create_committer(SinkContext(self.write_id, self.schema))
        try:
            committer.leave()
        finally:
            committer.close()


def stored_writes(path: str, options: Mapping[str, str] | None = None) -> list[StoredWrite]:
    """The batch writes below ``path`` that have left something. ``options`` adds what was secret."""
    storage, root = open_storage(path, s3_options(options))
    found = []
    for write_id in _directories(storage, f"{root}/{HIDDEN_DIRECTORY}"):
        log = CheckpointLocation(storage, f"{root}/{HIDDEN_DIRECTORY}/{write_id}")
        if storage.exists(f"{log.path}/sink.json"):
            _, sink, schema = load_sink(storage, f"{log.path}/sink.json", options)
            found.append(StoredWrite(write_id, sink, schema, log))
    return found


def _directories(storage: Storage, directory: str) -> list[str]:
    below = (path.removeprefix(f"{directory}/") for path in storage.list_tree(directory))
    return sorted({name.partition("/")[0] for name in below if "/" in name})
