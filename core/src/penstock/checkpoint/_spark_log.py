"""Spark's own log of a query: ``offsets/<N>`` of each batch that it has planned, ``commits/<N>`` of each committed."""

from __future__ import annotations

from penstock._commit import Batch, is_number
from penstock.errors import BadConfigurationError
from penstock.storage import Storage

__all__ = ["SparkLog"]


class SparkLog:
    """Read only, except for :meth:`restore`."""

    def __init__(self, storage: Storage, checkpoint: str) -> None:
        self._storage = storage
        self._checkpoint = checkpoint

    def _path(self, number: int) -> str:
        return f"{self._checkpoint}/offsets/{number}"

    def planned(self, expected: int | None) -> Batch:
        """Returns the last batch that Spark has planned, durable on return. ``expected`` is tried first.

        Raises BadConfigurationError if Spark plans without writing it down.
        """
        found = None if expected is None else self.find(expected)
        if found is None:
            number = self.last("offsets")
            found = self.find(number) if number >= 0 else None
        if found is None:
            raise BadConfigurationError(
                f"{self._storage.url(self._checkpoint)}/offsets: Spark has not written down what the batch reads. "
                "Exactly once needs that: turn asynchronous progress tracking off"
            )
        # Spark does not wait for the disk. A decision must not outlive what it rests on.
        self._storage.make_durable(self._path(found.number))
        return found

    def find(self, number: int) -> Batch | None:
        """Returns a batch of the log; ``None`` if it is not there (any more)."""
        try:
            return Batch(number, self._storage.read(self._path(number)))
        except FileNotFoundError:
            return None

    def last(self, directory: str) -> int:
        """Returns the last batch in ``offsets`` or ``commits``, -1 for none."""
        names = self._storage.list_names(f"{self._checkpoint}/{directory}")
        return max((int(name) for name in names if is_number(name)), default=-1)

    def restore(self, batch: Batch) -> None:
        """Writes a batch's offsets as they were, in place of the present ones; Spark then plans no later batch."""
        names = self._storage.list_names(f"{self._checkpoint}/offsets")
        later = [name for name in names if is_number(name) and int(name) > batch.number]
        # Spark's checksums are of what stood there before.
        self._storage.delete(self._storage_checksum(int(name)) for name in (*later, str(batch.number)))
        self._storage.delete(self._path(int(name)) for name in later)
        self._storage.put(self._path(batch.number), batch.offsets)

    def _storage_checksum(self, number: int) -> str:
        return f"{self._checkpoint}/offsets/.{number}.crc"
