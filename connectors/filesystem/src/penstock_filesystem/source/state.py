"""The enumerator's state and its stored form."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass

from penstock.errors import FatalError
from penstock.serialization import SimpleVersionedSerializer
from penstock_filesystem.source.seen import FileKey, SeenChunk
from penstock_filesystem.source.split import FileSplit, split_from_fields, split_to_fields

__all__ = ["FileEnumeratorSerializer", "FileEnumeratorState"]

_HEADER = struct.Struct("<I")


@dataclass(frozen=True)
class FileEnumeratorState:
    """What was handed out. Bounded by ``maxTrackedFiles`` (8 bytes each) and the sketch's 12 KiB.

    ``edge``: every file at or below it counts as read. ``chunks``: fingerprints of the files read above it.
    ``below_edge``: sketch of the files dealt with below it, empty bytes before there is an edge.
    ``rest``: what is left of a file cut between two batches. ``returned``: splits taken back, of one batch at most.
    ``late``: late files accepted and not handed out yet (whole files).
    """

    edge: FileKey | None = None
    chunks: tuple[SeenChunk, ...] = ()
    below_edge: bytes = b""
    rest: FileSplit | None = None
    returned: tuple[FileSplit, ...] = ()
    late: tuple[FileSplit, ...] = ()


class FileEnumeratorSerializer(SimpleVersionedSerializer[FileEnumeratorState]):
    """Version 1: length of the head (4 bytes, little endian), the head (zlib of JSON), the chunks' fingerprints,
    the sketch.
    """

    @property
    def version(self) -> int:
        """See the base class."""
        return 1

    def serialize(self, value: FileEnumeratorState) -> bytes:
        """See the base class."""
        head = {
            "edge": value.edge,
            "chunks": [[*chunk.last, len(chunk.fingerprints) // 8] for chunk in value.chunks],
            "rest": split_to_fields(value.rest) if value.rest else None,
            "returned": [split_to_fields(split) for split in value.returned],
            "late": [split_to_fields(split) for split in value.late],
        }
        packed = zlib.compress(json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode(), 6)
        return b"".join([_HEADER.pack(len(packed)), packed, *(c.fingerprints for c in value.chunks), value.below_edge])

    def deserialize(self, version: int, data: bytes) -> FileEnumeratorState:
        """See the base class."""
        if version != 1:
            raise FatalError(
                f"the file source's state has version {version}, this installation reads up to 1: "
                "install the release that wrote it, or a newer one"
            )
        (length,) = _HEADER.unpack_from(data)
        position = _HEADER.size + length
        head = json.loads(zlib.decompress(data[_HEADER.size : position]))
        chunks = []
        for mtime_ns, path, count in head["chunks"]:
            chunks.append(SeenChunk((mtime_ns, path), data[position : position + 8 * count]))
            position += 8 * count
        return FileEnumeratorState(
            edge=(head["edge"][0], head["edge"][1]) if head["edge"] else None,
            chunks=tuple(chunks),
            below_edge=data[position:],
            rest=split_from_fields(head["rest"]) if head["rest"] else None,
            returned=tuple(map(split_from_fields, head["returned"])),
            late=tuple(map(split_from_fields, head["late"])),
        )
