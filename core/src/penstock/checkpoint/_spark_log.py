"""Spark's own log of a query: ``offsets/<N>`` of each batch that it has planned, ``commits/<N>`` of each committed."""

from __future__ import annotations

from penstock._commit import Batch, is_number
from penstock.errors import BadConfigurationError
from penstock.storage import Storage

__all__ = ["SparkLog"]

_OF_ANY_AGE = float("-inf")


class SparkLog:
    """Read only, except for :meth:`restore` and :meth:`clear_unwritten`."""

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
        """Writes a batch's offsets as they were, in place of the present ones. Spark then plans no later batch, and
        runs this one again if it had run another one of that number.
        """
        present = self.find(batch.number)
        # First: as long as the offsets are another batch's, a restore that is killed here can be repeated.
        self._forget("offsets", batch.number + 1)
        if present is not None and present.offsets != batch.offsets:
            self._forget("commits", batch.number)
        # Spark's checksum is of what stood there before.
        self._storage.delete([f"{self._checkpoint}/offsets/.{batch.number}.crc"])
        self._storage.put(self._path(batch.number), batch.offsets)

    def clear_unwritten(self) -> None:
        """Removes what is left of the note of a first batch whose driver was killed meanwhile: on that, Spark 4.1 and
        later start no query with state. Does nothing once a batch is noted.
        """
        directory = f"{self._checkpoint}/offsets"
        names = self._storage.list_names(directory)
        if not any(map(is_number, names)):
            self._storage.sweep(directory, _OF_ANY_AGE)
            self._storage.delete(f"{directory}/{name}" for name in names if name.endswith(".crc"))

    def _forget(self, directory: str, first: int) -> None:
        """Deletes the batches from ``first`` on, and Spark's checksums of them."""
        names = self._storage.list_names(f"{self._checkpoint}/{directory}")
        gone = [name for name in names if is_number(name) and int(name) >= first]
        self._storage.delete(
            f"{self._checkpoint}/{directory}/{file}" for name in gone for file in (f".{name}.crc", name)
        )
