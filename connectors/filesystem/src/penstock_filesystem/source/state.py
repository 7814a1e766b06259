"""The enumerator's state and its stored form."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from penstock.errors import FatalError
from penstock.serialization import SimpleVersionedSerializer
from penstock_filesystem.source.first_edition import Edge
from penstock_filesystem.source.split import FileSplit, split_from_fields, split_to_fields

__all__ = ["FileEnumeratorSerializer", "FileEnumeratorState", "StoredRun"]

_HEADER = struct.Struct("<I")


@dataclass(frozen=True)
class StoredRun:
    """A run of ``count`` fingerprints: in the file ``name``, or here (8 bytes each) while there is none."""

    count: int
    name: str | None = None
    fingerprints: bytes = b""


@dataclass(frozen=True)
class FileEnumeratorState:
    """What was handed out.

    8 bytes for every file read; with ``checkpointLocation``, for some thousand of them, and the names of some 30 files
    that hold the rest. ``newest`` and ``runs``: what was read. ``place``: id of the directory that named runs are in;
    ``commits``: batches committed; ``replaced``: runs that were merged, and ``commits`` by then. ``rest``: what is left
    of a file cut between two batches. ``returned``: splits taken back, of one batch at most. ``edge``: only before the
    first look of a process that was started from a checkpoint of the first edition.
    """

    newest: bytes = b""
    runs: tuple[StoredRun, ...] = ()
    place: str | None = None
    commits: int = 0
    replaced: tuple[tuple[str, int], ...] = ()
    rest: FileSplit | None = None
    returned: tuple[FileSplit, ...] = ()
    edge: Edge | None = None


class FileEnumeratorSerializer(SimpleVersionedSerializer[FileEnumeratorState]):
    """Version 2: length of the head (4 bytes, little endian), the head (zlib of JSON), the fingerprints of ``newest``,
    of the runs without a name, the sketch of ``edge``. Reads version 1, which knew an edge and no names.
    """

    @property
    def version(self) -> int:
        """See the base class."""
        return 2

    def serialize(self, value: FileEnumeratorState) -> bytes:
        """See the base class."""
        head = {
            "newest": len(value.newest) // 8,
            "runs": [[run.name, run.count] for run in value.runs],
            "place": value.place,
            "commits": value.commits,
            "replaced": value.replaced,
            "rest": split_to_fields(value.rest) if value.rest else None,
            "returned": [split_to_fields(split) for split in value.returned],
            "edge": [value.edge.mtime_ns, value.edge.path] if value.edge else None,
        }
        packed = zlib.compress(json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode(), 6)
        inline = [run.fingerprints for run in value.runs if run.name is None]
        sketch = value.edge.sketch if value.edge else b""
        return b"".join([_HEADER.pack(len(packed)), packed, value.newest, *inline, sketch])

    def deserialize(self, version: int, data: bytes) -> FileEnumeratorState:
        """See the base class."""
        if version not in (1, 2):
            raise FatalError(
                f"the file source's state has version {version}, this installation reads up to 2: "
                "install the release that wrote it, or a newer one"
            )
        (length,) = _HEADER.unpack_from(data)
        head = json.loads(zlib.decompress(data[_HEADER.size : _HEADER.size + length]))
        body = memoryview(data)[_HEADER.size + length :]
        return _second(head, body) if version == 2 else _first(head, body)


def _second(head: dict[str, Any], body: memoryview) -> FileEnumeratorState:
    at = 8 * head["newest"]
    newest, runs = bytes(body[:at]), []
    for name, count in head["runs"]:
        inline = b"" if name else bytes(body[at : at + 8 * count])
        at += len(inline)
        runs.append(StoredRun(count, name, inline))
    return FileEnumeratorState(
        newest=newest,
        runs=tuple(runs),
        place=head["place"],
        commits=head["commits"],
        replaced=tuple((name, commits) for name, commits in head["replaced"]),
        rest=split_from_fields(head["rest"]) if head["rest"] else None,
        returned=tuple(map(split_from_fields, head["returned"])),
        edge=Edge(head["edge"][0], head["edge"][1], bytes(body[at:])) if head["edge"] else None,
    )


def _first(head: dict[str, Any], body: memoryview) -> FileEnumeratorState:
    """Chunks are runs here; late files that were waiting are splits that were taken back."""
    at, runs = 0, []
    for _, _, count in head["chunks"]:
        runs.append(StoredRun(count, None, bytes(body[at : at + 8 * count])))
        at += 8 * count
    return FileEnumeratorState(
        runs=tuple(runs),
        rest=split_from_fields(head["rest"]) if head["rest"] else None,
        returned=tuple(map(split_from_fields, [*head["returned"], *head["late"]])),
        edge=Edge(head["edge"][0], head["edge"][1], bytes(body[at:])) if head["edge"] else None,
    )
