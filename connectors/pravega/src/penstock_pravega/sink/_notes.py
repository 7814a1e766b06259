"""Notes of open transactions, beside the query's decisions: Pravega has no list of them."""

from __future__ import annotations

import json

from penstock.sink import CheckpointLocation
from penstock_pravega.sink._committable import TransactionRef

__all__ = ["TransactionNotes"]

_VERSION = 1


class TransactionNotes:
    """One small file for each transaction, written by the attempt that opened it, before its first event.

    So what attempts leave that never report back is found, by the driver and by any later one. A transaction whose
    opener dies before it noted it holds nothing, and ends with its lease.
    """

    def __init__(self, checkpoint: CheckpointLocation) -> None:
        self._storage = checkpoint.storage
        self._folder = f"{checkpoint.path}/penstock/pravega-transactions"

    def write(self, ref: TransactionRef, lease_ms: int) -> None:
        """Durable on return."""
        note = {"v": _VERSION, "stream": ref.stream, "transaction": f"{ref.id:032x}", "lease_ms": lease_ms}
        self._storage.put(self._path(ref), json.dumps(note, sort_keys=True).encode())

    def read(self) -> list[tuple[TransactionRef, int]]:
        """Every noted transaction with its lease (ms)."""
        found = []
        for name in self._storage.list_names(self._folder):
            if not name.endswith(".json") or name.startswith("."):
                continue
            try:
                note = json.loads(self._storage.read(f"{self._folder}/{name}"))
            except (FileNotFoundError, ValueError):
                continue  # another driver was quicker
            found.append((TransactionRef(note["stream"], int(note["transaction"], 16)), int(note["lease_ms"])))
        return found

    def delete(self, refs: list[TransactionRef]) -> None:
        """Of transactions that are over."""
        self._storage.delete([self._path(ref) for ref in refs])

    def _path(self, ref: TransactionRef) -> str:
        return f"{self._folder}/{ref.id:032x}.json"
