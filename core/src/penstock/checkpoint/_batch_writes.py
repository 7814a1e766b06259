"""Batch writes that keep their decision log below what they write, so that another process can end them.

``<log>/sink.json`` is the sink, ``<log>/decisions/`` the chain; ``<log>`` is named by the write's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock._commit import AnySink, Chain, TwoPhaseCommit, start_sink
from penstock.checkpoint._stored import load_sink, store_sink
from penstock.options import OptionValues
from penstock.retry import RetryPolicy
from penstock.sink import CheckpointLocation, SinkContext
from penstock.storage import Storage, open_storage

__all__ = [
    "HIDDEN_DIRECTORY",
    "StoredWrite",
    "chain_of_write",
    "forget_write",
    "is_remembered",
    "remember_write",
    "stored_writes",
]

#: Below the path that is written to. Readers skip names that begin with a dot.
HIDDEN_DIRECTORY = ".penstock"


def remember_write(log: CheckpointLocation, connector: str, options: OptionValues, schema: pa.Schema) -> None:
    """A batch write begins."""
    store_sink(log.storage, f"{log.path}/sink.json", connector, options, schema)


def is_remembered(log: CheckpointLocation) -> bool:
    """Returns whether the batch write has not been ended yet."""
    return log.storage.exists(f"{log.path}/sink.json")


def forget_write(log: CheckpointLocation) -> None:
    """Forgets a batch write that has ended.

    The sink goes first: a log without one is of a write that has ended, and one without links of a write that begins.
    """
    log.storage.delete([f"{log.path}/sink.json"])
    chain_of_write(log).delete()


@dataclass(frozen=True)
class StoredWrite:
    """A batch write that has not come to its end, or whose driver has not removed what it was kept by."""

    write_id: str
    sink: AnySink
    schema: pa.Schema
    log: CheckpointLocation
    retry: RetryPolicy

    @property
    def chain(self) -> Chain:
        """Its decision log."""
        return chain_of_write(self.log)

    def protocol(self) -> TwoPhaseCommit:
        """Returns the driver's side of its commit protocol."""
        context = SinkContext(self.write_id, self.schema, retry=self.retry)
        return TwoPhaseCommit(start_sink(self.sink, context), context, self.chain)

    def forget(self) -> None:
        """After it has ended."""
        forget_write(self.log)
        committer = self.sink.create_committer(SinkContext(self.write_id, self.schema))
        try:
            committer.leave()
        finally:
            committer.close()


def chain_of_write(log: CheckpointLocation) -> Chain:
    """Returns the decision log of a batch write."""
    return Chain(log.storage, f"{log.path}/decisions")


def stored_writes(path: str, options: Mapping[str, str] | None = None) -> list[StoredWrite]:
    """The batch writes below ``path`` that have not ended. ``options`` adds what was secret.

    Removes what is left of the records of those that have. What fails is tried again, as ``retryTimeout`` says.
    """
    storage, root = open_storage(path, options, RetryPolicy())
    found = []
    for log in _logs(storage, f"{root}/{HIDDEN_DIRECTORY}"):
        try:
            _, sink, schema, retry = load_sink(storage, f"{log.path}/sink.json", options)
        except FileNotFoundError:
            chain_of_write(log).delete()
            storage.remove_empty(log.path)
            continue
        log = CheckpointLocation(storage.retrying(retry), log.path)
        found.append(StoredWrite(log.path.rpartition("/")[2], sink, schema, log, retry))
    return found


def _logs(storage: Storage, directory: str) -> list[CheckpointLocation]:
    """Yields the logs of batch writes; streaming queries keep theirs in their checkpoints."""
    names = (path.removeprefix(f"{directory}/").split("/") for path in storage.list_tree(directory))
    ids = {name[0] for name in names if name[1:2] in (["sink.json"], ["decisions"])}
    return [CheckpointLocation(storage, f"{directory}/{write_id}") for write_id in sorted(ids)]
