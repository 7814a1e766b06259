"""A log of open transactions in the query's checkpoint: Pravega has no list of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.serialization import MALFORMED
from penstock.sink import CheckpointLocation
from penstock_pravega.sink._committable import TransactionRef

__all__ = ["OpenTransaction", "TransactionLog"]

_VERSION = 2


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that an attempt has opened. ``base`` is the attempt's (-1 for entries of the first edition)."""

    ref: TransactionRef
    lease_ms: int
    base: int = -1


class TransactionLog:
    """One small file for each transaction, written by the attempt that opened it, before its first event.

    By it this driver and any later one find transactions of attempts that never report back. A transaction whose
    opener dies before it wrote the file holds nothing, and ends with its lease.
    """

    def __init__(self, checkpoint: CheckpointLocation, query_id: str) -> None:
        self._storage = checkpoint.storage
        self._folder = f"{checkpoint.path}/penstock/pravega-transactions"
        self._query_id = query_id

    def write(self, entry: OpenTransaction) -> None:
        """Adds an entry. Durable on return."""
        fields = {
            "v": _VERSION,
            "query": self._query_id,
            "base": entry.base,
            "stream": entry.ref.stream,
            "transaction": f"{entry.ref.id:032x}",
            "lease_ms": entry.lease_ms,
        }
        self._storage.put(self._path(entry.ref), json.dumps(fields, sort_keys=True).encode())

    def read(self) -> list[OpenTransaction]:
        """Returns the query's entries, and those of the first edition. Leaves out what does not parse."""
        found = []
        for name in self._storage.list_names(self._folder):
            path = f"{self._folder}/{name}"
            try:
                entry = self._parsed(self._storage.read(path))
            except FileNotFoundError:
                continue  # another driver was quicker
            if entry is not None and self._path(entry.ref) == path:
                found.append(entry)
        return found

    def _parsed(self, data: bytes) -> OpenTransaction | None:
        """Returns ``None`` for what is no entry, an entry of a newer version, or another query's."""
        try:
            fields = json.loads(data)
            if fields["v"] > _VERSION or fields.get("query", self._query_id) != self._query_id:
                return None
            ref = TransactionRef(fields["stream"], int(fields["transaction"], 16))
            return OpenTransaction(ref, int(fields["lease_ms"]), int(fields.get("base", -1)))
        except MALFORMED:
            return None

    def delete(self, refs: Iterable[TransactionRef]) -> None:
        """Removes the entries of transactions that are over. Missing ones are no error."""
        self._storage.delete([self._path(ref) for ref in refs])

    def sweep(self) -> None:
        """Removes temporary files of processes that were killed while they wrote an entry."""
        self._storage.sweep(self._folder)

    def _path(self, ref: TransactionRef) -> str:
        return f"{self._folder}/{ref.id:032x}.json"
