"""Notes of open transactions, beside the query's decisions: Pravega has no list of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.sink import CheckpointLocation
from penstock_pravega.sink._committable import TransactionRef

__all__ = ["OpenTransaction", "TransactionLog"]

_VERSION = 2


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that an attempt has opened. ``base`` is the attempt's (-1 for what the first edition has noted)."""

    ref: TransactionRef
    lease_ms: int
    base: int = -1


class TransactionLog:
    """One small file for each transaction, written by the attempt that opened it, before its first event.

    So what attempts leave that never report back is found, by the driver and by any later one. A transaction whose
    opener dies before it noted it holds nothing, and ends with its lease.
    """

    def __init__(self, checkpoint: CheckpointLocation, query_id: str) -> None:
        self._storage = checkpoint.storage
        self._folder = f"{checkpoint.path}/penstock/pravega-transactions"
        self._query_id = query_id

    def write(self, note: OpenTransaction) -> None:
        """Durable on return."""
        fields = {
            "v": _VERSION,
            "query": self._query_id,
            "base": note.base,
            "stream": note.ref.stream,
            "transaction": f"{note.ref.id:032x}",
            "lease_ms": note.lease_ms,
        }
        self._storage.put(self._path(note.ref), json.dumps(fields, sort_keys=True).encode())

    def read(self) -> list[OpenTransaction]:
        """Those of the query, and what the first edition has noted here. What does not parse is left out."""
        found = []
        for name in self._storage.list_names(self._folder):
            path = f"{self._folder}/{name}"
            try:
                note = self._parsed(self._storage.read(path))
            except FileNotFoundError:
                continue  # another driver was quicker
            if note is not None and self._path(note.ref) == path:
                found.append(note)
        return found

    def _parsed(self, data: bytes) -> OpenTransaction | None:
        """``None`` if it is no note, one of a newer version, or another query's."""
        try:
            fields = json.loads(data)
            if fields["v"] > _VERSION or fields.get("query", self._query_id) != self._query_id:
                return None
            ref = TransactionRef(fields["stream"], int(fields["transaction"], 16))
            return OpenTransaction(ref, int(fields["lease_ms"]), int(fields.get("base", -1)))
        except (AttributeError, LookupError, TypeError, ValueError):
            return None

    def delete(self, refs: Iterable[TransactionRef]) -> None:
        """Of transactions that are over. Missing ones are fine."""
        self._storage.delete([self._path(ref) for ref in refs])

    def sweep(self) -> None:
        """Removes what killed processes have left of notes that they were writing."""
        self._storage.sweep(self._folder)

    def _path(self, ref: TransactionRef) -> str:
        return f"{self._folder}/{ref.id:032x}.json"
