"""How records name the schema that they were written with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization.formats._schemas import SchemaKey

__all__ = ["Framing", "NumberFraming", "SameSchema", "by_head"]


@dataclass(frozen=True)
class SameSchema:
    """The records of a batch that name one schema.

    ``rows`` are their places in the batch (int64), ``payloads`` what follows their headers. Where ``problem`` says why
    there is no header, ``key`` is ``None``.
    """

    rows: pa.Array
    payloads: pa.Array
    key: SchemaKey = None
    problem: str | None = None


class Framing(ABC):
    """A header before each record. Immutable, pickled."""

    @abstractmethod
    def split(self, values: pa.Array) -> Iterator[SameSchema]:
        """Yields the records of a binary array without nulls, each in one group."""

    @abstractmethod
    def header(self, key: SchemaKey) -> bytes:
        """Returns what to write before a record of the schema ``key``."""


@dataclass(frozen=True)
class NumberFraming(Framing):
    """A zero byte and the schema's number, the most significant of its ``size`` bytes first."""

    size: int = 4

    def split(self, values: pa.Array) -> Iterator[SameSchema]:
        length = 1 + self.size
        for head, rows, own in by_head(values, length):
            payloads = pc.binary_replace_slice(own, 0, length, b"")
            if len(head) < length or head[0] != 0:
                yield SameSchema(rows, payloads, problem=self._problem())
            else:
                yield SameSchema(rows, payloads, int.from_bytes(head[1:], "big"))

    def header(self, key: SchemaKey) -> bytes:
        return b"\0" + int(key).to_bytes(self.size, "big")

    def _problem(self) -> str:
        return f"does not begin with a zero byte and a schema's id ({self.size} bytes)"


def by_head(values: pa.Array, length: int) -> Iterator[tuple[bytes, pa.Array, pa.Array]]:
    """Yields each value of the first ``length`` bytes with the rows that begin with it, and their values."""
    heads = pc.binary_slice(values, 0, length).dictionary_encode()
    if len(heads.dictionary) == 1:  # as nearly every batch is
        yield heads.dictionary[0].as_py(), pa.array(range(len(values)), pa.int64()), values
        return
    for number, head in enumerate(heads.dictionary.to_pylist()):
        rows = pc.indices_nonzero(pc.equal(heads.indices, number)).cast(pa.int64())
        yield head, rows, values.take(rows)
