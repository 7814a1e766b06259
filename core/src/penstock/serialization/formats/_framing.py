"""How records name the schema that they were written with."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization._malformed import inflated
from penstock.serialization.formats._schemas import SchemaKey

__all__ = ["Framing", "GlueFraming", "NumberFraming", "SameSchema"]

_GLUE_VERSION, _GLUE_ZLIB, _GLUE_HEADER = 3, 5, 18
#: Of one record once it is decompressed.
_MOST_BYTES = 1 << 26


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
        for head, rows, own in _by_head(values, length):
            payloads = pc.binary_replace_slice(own, 0, length, b"")
            if len(head) < length or head[0] != 0:
                yield SameSchema(rows, payloads, problem=self._problem())
            else:
                yield SameSchema(rows, payloads, int.from_bytes(head[1:], "big"))

    def header(self, key: SchemaKey) -> bytes:
        return b"\0" + int(key).to_bytes(self.size, "big")

    def _problem(self) -> str:
        return f"does not begin with a zero byte and a schema's id ({self.size} bytes)"


@dataclass(frozen=True)
class GlueFraming(Framing):
    """The byte 3, a byte that says how the rest is compressed (0: not at all, 5: zlib), and the UUID of the schema's
    version (16 bytes).
    """

    def split(self, values: pa.Array) -> Iterator[SameSchema]:
        for head, rows, own in _by_head(values, _GLUE_HEADER):
            payloads = pc.binary_replace_slice(own, 0, _GLUE_HEADER, b"")
            if len(head) < _GLUE_HEADER or head[0] != _GLUE_VERSION:
                problem = "does not begin with the byte 3, a byte for the compression, and a schema's UUID (16 bytes)"
                yield SameSchema(rows, payloads, problem=problem)
                continue
            key = str(UUID(bytes=head[2:]))
            if head[1] == 0:
                yield SameSchema(rows, payloads, key)
            elif head[1] == _GLUE_ZLIB:
                yield from _decompressed(rows, payloads, key)
            else:
                yield SameSchema(rows, payloads, problem=f"is compressed in a way ({head[1]}) that Glue does not name")

    def header(self, key: SchemaKey) -> bytes:
        return bytes([_GLUE_VERSION, 0]) + UUID(key).bytes


def _decompressed(rows: pa.Array, payloads: pa.Array, key: str) -> Iterator[SameSchema]:
    # Row by row in Python: Arrow decompresses buffers, not values.
    plain: list[bytes | None] = []
    for payload in payloads.to_pylist():
        try:
            plain.append(inflated(payload, _MOST_BYTES))
        except (ValueError, zlib.error):
            plain.append(None)
    found = pa.array(plain, pa.binary())
    if found.null_count < len(found):
        yield SameSchema(rows.filter(found.is_valid()), found.drop_null(), key)
    if found.null_count:
        damaged = rows.filter(found.is_null())
        problem = f"is not compressed with zlib, as it says, or becomes more than {_MOST_BYTES} bytes"
        yield SameSchema(damaged, pa.nulls(len(damaged), pa.binary()), problem=problem)


def _by_head(values: pa.Array, length: int) -> Iterator[tuple[bytes, pa.Array, pa.Array]]:
    """Yields each value of the first ``length`` bytes with the rows that begin with it, and their values."""
    heads = pc.binary_slice(values, 0, length).dictionary_encode()
    if len(heads.dictionary) == 1:  # as nearly every batch is
        yield heads.dictionary[0].as_py(), pa.array(range(len(values)), pa.int64()), values
        return
    for number, head in enumerate(heads.dictionary.to_pylist()):
        rows = pc.indices_nonzero(pc.equal(heads.indices, number)).cast(pa.int64())
        yield head, rows, values.take(rows)
