"""The stored forms of the sink: parts to publish (committables), and open chunks (the writers' state)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from penstock.errors import FatalError
from penstock.serialization import JsonSerializer
from penstock_filesystem.sink._layout import is_hidden_path

__all__ = ["WRITER_STATE_SERIALIZER", "COMMITTABLE_SERIALIZER", "Chunk", "PendingPart", "UploadedPart", "human_size"]


@dataclass(frozen=True)
class Chunk:
    """Writer state: a durable, hidden file with rows of one bucket that are decided but not yet published.

    ``path`` is relative to the sink's path. ``header`` is the number of bytes at its start that a part needs once
    (a CSV header, say). Only chunks of the same ``fingerprint`` (format, schema and encoding) may be merged. Times are
    milliseconds since the epoch, of the first and of the last row.
    """

    bucket: str
    path: str
    size: int
    rows: int
    format: str
    extension: str
    fingerprint: str
    header: int
    created_ms: int
    last_write_ms: int

    @staticmethod
    def merged(chunks: Sequence[Chunk], path: str, size: int) -> Chunk:
        """Returns the chunk at ``path`` that stands for the rows of ``chunks``."""
        return dataclasses.replace(
            chunks[0],
            path=path,
            size=size,
            rows=sum(chunk.rows for chunk in chunks),
            created_ms=min(chunk.created_ms for chunk in chunks),
            last_write_ms=max(chunk.last_write_ms for chunk in chunks),
        )


@dataclass(frozen=True)
class UploadedPart:
    """One part of a multipart upload, as completing it needs; of blocks, ``etag`` is the block's id."""

    number: int
    etag: str
    size: int


@dataclass(frozen=True)
class PendingPart:
    """Committable: a finished file that becomes visible as ``final`` on commit. Paths are relative to the sink's path.

    ``rename``: the bytes are in the hidden file ``hidden``, with an empty file next to it, its witness, which proves
    that it was there. ``adopted`` says that it is a chunk made earlier, which must be left alone (only in what the
    first edition has decided). ``move``: the same with an object, whose generation is ``upload_id``. ``multipart``:
    the bytes are in the open upload ``upload_id`` to the final key, which the object ``marker`` records. ``blocks``:
    the bytes are in blocks of the final name that are not committed; the blob ``marker`` proves that they were all
    there. ``consumed`` are the chunks that the part replaces.
    """

    kind: Literal["rename", "move", "multipart", "blocks"]
    final: str
    size: int
    rows: int
    hidden: str = ""
    adopted: bool = False
    consumed: tuple[str, ...] = ()
    upload_id: str = ""
    parts: tuple[UploadedPart, ...] = ()
    marker: str = ""

    @property
    def witness(self) -> str:
        """Path of the witness: it stays when the hidden file gets its final name, and when a reader takes that away."""
        return f"{self.hidden}.witness"

    @property
    def sealed(self) -> str:
        """Path of the hidden file once it must not be published any more."""
        return f"{self.hidden}.sealed"

    def consuming(self, paths: Iterable[str]) -> PendingPart:
        """Returns the same part, as one that replaces the chunks at ``paths``."""
        return dataclasses.replace(self, consumed=tuple(paths))

    def describe(self) -> str:
        """Describes the part in words that hold before it is published and after."""
        where = {
            "rename": self.hidden,
            "move": self.hidden,
            "multipart": f"a multipart upload of {len(self.parts)} parts",
            "blocks": f"{len(self.parts)} uncommitted blocks",
        }[self.kind]
        return f"part {self.final}: {self.rows} rows, {human_size(self.size)}, from {where}"


def human_size(size: int) -> str:
    """``3400000`` → ``"3.4 MB"`` (powers of 1000)."""
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"


def describe_chunk(chunk: Chunk) -> str:
    """Describes the chunk in words."""
    since = datetime.fromtimestamp(chunk.created_ms / 1000, timezone.utc)
    bucket = f"bucket {chunk.bucket}" if chunk.bucket else "no bucket"
    what = f"open {chunk.format} chunk, {chunk.rows} rows, {human_size(chunk.size)}"
    return f"{what}, {bucket}, since {since:%Y-%m-%d %H:%M:%S} UTC, in {chunk.path}"


def _part_from_fields(version: int, fields: dict[str, Any]) -> PendingPart:
    parts = tuple(UploadedPart(*part) for part in fields.pop("parts"))
    part = PendingPart(**{**fields, "consumed": tuple(fields["consumed"]), "parts": parts})
    _check_paths([path for path in (part.hidden, part.marker, *part.consumed) if path], part.final)
    return part


def _part_to_fields(part: PendingPart) -> dict[str, Any]:
    return {**vars(part), "parts": [dataclasses.astuple(uploaded) for uploaded in part.parts]}


def _chunk_from_fields(version: int, fields: dict[str, Any]) -> Chunk:
    chunk = Chunk(**fields)
    _check_paths([chunk.path], chunk.bucket)
    return chunk


def _check_paths(hidden: Iterable[str], shown: str) -> None:
    """Raises FatalError for paths that this sink never stores: it deletes hidden files and renames them to others."""
    wrong = [path for path in hidden if not is_hidden_path(path)]
    if shown.startswith("."):
        wrong.append(shown)
    if wrong:
        raise FatalError(
            f"the checkpoint names the file {wrong[0]!r}, which this sink never makes: another program has changed it, "
            "and perhaps more. Restore the checkpoint from a copy"
        )


#: Stored form of open chunks; golden file ``state-v1.bin``.
WRITER_STATE_SERIALIZER: JsonSerializer[Chunk] = JsonSerializer(1, lambda chunk: vars(chunk), _chunk_from_fields)

#: Stored form of parts to publish; golden file ``committable-v1.bin``.
COMMITTABLE_SERIALIZER: JsonSerializer[PendingPart] = JsonSerializer(1, _part_to_fields, _part_from_fields)
