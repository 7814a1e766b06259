"""Splits and the enumerator's state, with their stored forms."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from penstock.errors import FatalError
from penstock.serialization import JsonSerializer, SimpleVersionedSerializer, inflated, malformed_is_bad_data

__all__ = ["SPLIT_SERIALIZER", "STATE_SERIALIZER", "Edge", "FileSplit", "FileSystemEnumeratorState", "StoredRun"]

_HEADER = struct.Struct("<I")


@dataclass(frozen=True)
class FileSplit:
    """A range of a file: ``length`` bytes from ``start``, with the size and time the file had when it was planned.

    A range has the rows that start in it (line formats), the row groups whose first byte is in it
    (Parquet); other files are one range. ``mtime_ns`` is nanoseconds since 1970 UTC.
    """

    path: str
    mtime_ns: int
    size: int
    start: int
    length: int

    @property
    def split_id(self) -> str:
        """Path and range."""
        return f"{self.path}:{self.start}+{self.length}"

    @property
    def size_bytes(self) -> int:
        """Bytes of the range."""
        return self.length

    @property
    def group(self) -> str:
        """The path: limits count files."""
        return self.path

    @property
    def end(self) -> int:
        """First byte after the range."""
        return self.start + self.length

    @property
    def is_last(self) -> bool:
        """Whether the range reaches the end of the file."""
        return self.end >= self.size


def _split_to_fields(split: FileSplit) -> list[Any]:
    """Returns the JSON fields of a split."""
    return [split.path, split.mtime_ns, split.size, split.start, split.length]


def _split_from_fields(fields: list[Any]) -> FileSplit:
    """Inverts :func:`_split_to_fields`."""
    path, mtime_ns, size, start, length = fields
    return FileSplit(str(path), int(mtime_ns), int(size), int(start), int(length))


#: Stored form of splits, ``[path, mtime_ns, size, start, length]``; golden file ``split-v1.bin``.
SPLIT_SERIALIZER: JsonSerializer[FileSplit] = JsonSerializer(
    1, _split_to_fields, lambda version, fields: _split_from_fields(fields)
)


@dataclass(frozen=True)
class Edge:
    """What checkpoints of the first edition remember: a time and path at or below which every file counts as read.

    They are those of the newest file forgotten; ``sketch`` is a set sketch of all that were.
    """

    mtime_ns: int
    path: str
    sketch: bytes


@dataclass(frozen=True)
class StoredRun:
    """A run of ``count`` fingerprints: in the file ``name``, or here (8 bytes each) while there is none."""

    count: int
    name: str | None = None
    fingerprints: bytes = b""


@dataclass(frozen=True)
class FileSystemEnumeratorState:
    """What was handed out.

    ``newest`` and ``runs``: the fingerprints of what was read, 8 bytes for every file; with ``checkpointLocation``, 8
    bytes for some thousand of them, and the names of some 30 files that hold the rest. ``place``: id of the directory
    that named runs are in; ``commits``: batches committed; ``replaced``: runs that were merged, and ``commits`` by
    then. ``rest``: what is left of a file cut between two batches. ``returned``: splits taken back, of one batch at
    most. ``edge``: only before the first listing of a process that was started from a checkpoint of the first edition.
    """

    newest: bytes = b""
    runs: tuple[StoredRun, ...] = ()
    place: str | None = None
    commits: int = 0
    replaced: tuple[tuple[str, int], ...] = ()
    rest: FileSplit | None = None
    returned: tuple[FileSplit, ...] = ()
    edge: Edge | None = None


class _StateSerializer(SimpleVersionedSerializer[FileSystemEnumeratorState]):
    """Version 2: length of the head (4 bytes, little endian), the head (zlib of JSON), the fingerprints of ``newest``,
    of the runs without a name, the sketch of ``edge``. Reads version 1, which knew an edge and no names.
    """

    @property
    def version(self) -> int:
        """The version that is written."""
        return 2

    def serialize(self, value: FileSystemEnumeratorState) -> bytes:
        """Writes version 2."""
        head = {
            "newest": len(value.newest) // 8,
            "runs": [[run.name, run.count] for run in value.runs],
            "place": value.place,
            "commits": value.commits,
            "replaced": value.replaced,
            "rest": _split_to_fields(value.rest) if value.rest else None,
            "returned": [_split_to_fields(split) for split in value.returned],
            "edge": [value.edge.mtime_ns, value.edge.path] if value.edge else None,
        }
        packed = zlib.compress(json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode(), 6)
        inline = [run.fingerprints for run in value.runs if run.name is None]
        sketch = value.edge.sketch if value.edge else b""
        return b"".join([_HEADER.pack(len(packed)), packed, value.newest, *inline, sketch])

    def deserialize(self, version: int, data: bytes) -> FileSystemEnumeratorState:
        """Reads versions 1 and 2. Raises FatalError for others, BadDataError for what is neither."""
        if version not in (1, 2):
            raise FatalError(
                f"the file source's state has version {version}, this installation reads up to 2: "
                "install the release that wrote it, or a newer one"
            )
        with malformed_is_bad_data("the file source's state"):
            (length,) = _HEADER.unpack_from(data)
            head = json.loads(inflated(data[_HEADER.size : _HEADER.size + length]))
            body = memoryview(data)[_HEADER.size + length :]
            return _from_version_2(head, body) if version == 2 else _from_version_1(head, body)


def _from_version_2(head: dict[str, Any], body: memoryview) -> FileSystemEnumeratorState:
    newest, runs = _fingerprints(body, 0, head["newest"]), []
    at = len(newest)
    for name, count in head["runs"]:
        inline = b"" if name else _fingerprints(body, at, count)
        at += len(inline)
        runs.append(StoredRun(count, name, inline))
    return FileSystemEnumeratorState(
        newest=newest,
        runs=tuple(runs),
        place=head["place"],
        commits=head["commits"],
        replaced=tuple((name, commits) for name, commits in head["replaced"]),
        rest=_split_from_fields(head["rest"]) if head["rest"] else None,
        returned=tuple(map(_split_from_fields, head["returned"])),
        edge=Edge(head["edge"][0], head["edge"][1], bytes(body[at:])) if head["edge"] else None,
    )


def _fingerprints(body: memoryview, at: int, count: int) -> bytes:
    if not 0 <= 8 * count <= len(body) - at:
        raise ValueError(f"{count} fingerprints are not in {len(body) - at} bytes")
    return bytes(body[at : at + 8 * count])


def _from_version_1(head: dict[str, Any], body: memoryview) -> FileSystemEnumeratorState:
    """Takes its chunks as runs, and late files that were waiting as splits that were taken back."""
    at, runs = 0, []
    for _, _, count in head["chunks"]:
        runs.append(StoredRun(count, None, _fingerprints(body, at, count)))
        at += 8 * count
    return FileSystemEnumeratorState(
        runs=tuple(runs),
        rest=_split_from_fields(head["rest"]) if head["rest"] else None,
        returned=tuple(map(_split_from_fields, [*head["returned"], *head["late"]])),
        edge=Edge(head["edge"][0], head["edge"][1], bytes(body[at:])) if head["edge"] else None,
    )


#: Stored form of the enumerator's state; golden files ``enumerator-v1.json`` and ``enumerator-v2.json``.
STATE_SERIALIZER = _StateSerializer()
