"""The stream's offset, as Spark's offset log holds it: the enumerator's state and the splits of the batch.

::

    {"penstock": 1, "seq": 7, "enumerator": {"v": 1, "data": "<base64>"},
     "splits": {"v": 1, "count": 12, "bytes": 81920, "data": "<base64, deflated>"}, "end": true,
     "options": {"startingOffsets": "earliest"}, "source": "penstock.kafka"}

``seq`` counts the offsets of a stream. ``end`` says that the enumerator will hand out nothing more in this run; a sink
of the same query then publishes everything with that batch. ``final`` says so of every later run as well. ``options``
are those that do not take effect at a restart, see :func:`penstock.options.held_by_checkpoint`; absent: none are known.
``source`` is the format's name; offsets of penstock 0.1 may lack it.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import FatalError
from penstock.serialization import SimpleVersionedSerializer, Versioned, inflated, malformed_is_bad_data

__all__ = ["StreamOffset", "is_final_batch", "is_last_batch"]

FORMAT = 1


@dataclass(frozen=True)
class StreamOffset:
    """One offset, splits still packed. ``adopted``: it stands for one that another connector stored (never written)."""

    seq: int
    enumerator: Versioned | None
    splits: Versioned | None = None
    count: int = 0
    size_bytes: int = 0
    end: bool = False
    final: bool = False
    adopted: bool = False
    options: Mapping[str, str] | None = None
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns what Spark stores."""
        value: dict[str, Any] = {"penstock": FORMAT, "seq": self.seq}
        if self.enumerator is not None:
            value["enumerator"] = self.enumerator.to_json()
        if self.splits is not None:
            value["splits"] = {"count": self.count, "bytes": self.size_bytes, **self.splits.to_json()}
        if self.end:
            value["end"] = True
        if self.final:
            value["final"] = True
        if self.options is not None:
            value["options"] = dict(self.options)
        if self.source:
            value["source"] = self.source
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> StreamOffset:
        """Returns the inverse of :meth:`to_json`. Raises BadDataError for what never was one."""
        with malformed_is_bad_data("an offset of the checkpoint"):
            return cls._from_json(value)

    @classmethod
    def _from_json(cls, value: dict[str, Any]) -> StreamOffset:
        if value["penstock"] > FORMAT:
            raise FatalError(f"the checkpoint was written by a newer penstock (offset format {value['penstock']})")
        splits = value.get("splits")
        return cls(
            seq=value["seq"],
            enumerator=Versioned.from_json(value["enumerator"]) if "enumerator" in value else None,
            splits=Versioned.from_json(splits) if splits else None,
            count=splits["count"] if splits else 0,
            size_bytes=splits["bytes"] if splits else 0,
            end=bool(value.get("end")),
            final=bool(value.get("final")),
            options=_texts(value["options"]) if value.get("options") is not None else None,
            source=str(value.get("source", "")),
        )

    def unpack_splits(self, serializer: SimpleVersionedSerializer[Any]) -> list[Any]:
        """Returns the splits of the batch that ends here. Raises BadDataError if they are damaged."""
        if self.splits is None:
            return []
        splits, at = [], 0
        with malformed_is_bad_data(f"the splits in offset {self.seq} of the checkpoint"):
            packed = inflated(self.splits.data)
            while at < len(packed):
                (length,) = struct.unpack_from(">I", packed, at)
                splits.append(serializer.deserialize(self.splits.version, packed[at + 4 : at + 4 + length]))
                at += 4 + length
        return splits


def _texts(options: Any) -> dict[str, str]:
    if not all(isinstance(part, str) for pair in options.items() for part in pair):
        raise TypeError("options are texts")
    return dict(options)


def pack_splits(splits: Sequence[Any], serializer: SimpleVersionedSerializer[Any]) -> Versioned:
    """Splits as one deflated block: neighbours are alike, so it takes a few bytes for each."""
    parts = []
    for split in splits:
        data = serializer.serialize(split)
        parts += [struct.pack(">I", len(data)), data]
    return Versioned(serializer.version, zlib.compress(b"".join(parts), 6))


def is_last_batch(offsets_file: bytes, *, run_ends: bool = False) -> bool:
    """Returns whether every source in Spark's offset file of a batch says that it is at its end for this run.

    A source of Spark's own can't say so. In a run that ends by itself, ``run_ends``, any batch may be its last.
    """
    return _all_say(offsets_file, "end", others=run_ends)


def is_final_batch(offsets_file: bytes) -> bool:
    """Returns the same for good: no later run will find more either."""
    return _all_say(offsets_file, "final")


def _all_say(offsets_file: bytes, what: str, *, others: bool = False) -> bool:
    # A version line, a line of metadata, then a line for each source ("-" for one without an offset).
    # Cut at line feeds alone, as Spark does: a text within may hold other characters that Python takes for line ends.
    lines = [line for line in offsets_file.decode("utf-8", "replace").split("\n")[2:] if line and line != "-"]
    return all(_says(line, what, others) for line in lines) if lines else others


def _says(line: str, what: str, others: bool) -> bool:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return others
    return bool(value.get(what)) if isinstance(value, dict) and "penstock" in value else others
