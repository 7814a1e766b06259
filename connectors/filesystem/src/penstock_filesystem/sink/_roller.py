"""Looks after open parts: merges their chunks and publishes what is due."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.metrics import Metrics
from penstock.sink import Rolled, StateRoller
from penstock_filesystem.sink._format import Format
from penstock_filesystem.sink._format_parquet import ParquetFormat, merge_parquet
from penstock_filesystem.sink._rolling import PartFileInfo, RollingPolicy
from penstock_filesystem.sink._staging import StagedFile, Staging, open_chunk
from penstock_filesystem.sink._state import Chunk, PendingPart

__all__ = ["FileRoller"]

Numbered = tuple[int, Chunk]

#: When everything is finished, a chunk of this size is a part of its own: merging runs in one process then.
LARGE_CHUNK_BYTES = 8 << 20


class FileRoller(StateRoller[PendingPart, Chunk]):
    """Takes the chunks of a bucket together for an open part.

    Due parts (full, old, inactive, or all of them at the end) become parts of about the target size. A bucket with too
    many chunks gets its smallest ones merged, so that state and files stay few; since at least half of them are taken,
    and larger ones only as they are matched in size, a row is rewritten a logarithmic number of times.
    Memory: one row group for Parquet, else a few MiB.
    """

    def __init__(
        self,
        staging: Staging,
        format_: Format,
        policy: RollingPolicy,
        *,
        max_chunks: int,
        clock: Callable[[], int],
        metrics: Metrics,
    ) -> None:
        self._staging = staging
        self._format = format_
        self._policy = policy
        self._max_chunks = max_chunks
        self._clock = clock
        self._metrics = metrics

    def roll(self, states: Sequence[Chunk], *, finish: bool) -> list[Rolled[PendingPart, Chunk]]:
        """See the base class."""
        rolled: list[Rolled[PendingPart, Chunk]] = []
        for chunks in _by_part(states):
            if finish:
                large = [numbered for numbered in chunks if numbered[1].size >= LARGE_CHUNK_BYTES]
                rolled += [self._publish([numbered]) for numbered in large]
                chunks = [numbered for numbered in chunks if numbered not in large]
            if finish or self._is_time(chunks):
                rolled += [self._publish(part) for part in self._parts(chunks, with_rest=True)]
                continue
            full = self._parts(chunks, with_rest=False)
            rolled += [self._publish(part) for part in full]
            rest = chunks[sum(len(part) for part in full) :]
            if len(rest) > self._max_chunks:
                rolled.append(self._compact(_smallest(rest)))
        self._staging.sync()
        return rolled

    def _is_time(self, chunks: list[Numbered]) -> bool:
        part = PartFileInfo.of_chunks([chunk for _, chunk in chunks])
        return self._policy.should_roll_on_processing_time(part, self._clock() // 1_000_000)

    def _parts(self, chunks: list[Numbered], *, with_rest: bool) -> list[list[Numbered]]:
        """Chunks in their order, cut where the policy says that a part is full."""
        parts: list[list[Numbered]] = []
        current: list[Numbered] = []
        for numbered in chunks:
            current.append(numbered)
            if self._policy.should_roll_on_event(PartFileInfo.of_chunks([chunk for _, chunk in current])):
                parts.append(current)
                current = []
        return [*parts, current] if with_rest and current else parts

    def _publish(self, numbered: list[Numbered]) -> Rolled[PendingPart, Chunk]:
        chunks = [chunk for _, chunk in numbered]
        names = self._staging.names
        used = names.used
        final = names.final(chunks[0].bucket, chunks[0].extension)
        if chunks[0].format == ParquetFormat.name and len(chunks) > 1:
            part = self._staging.part(self._merged(chunks), final, sum(chunk.rows for chunk in chunks))
        else:
            part = self._staging.join_to_part(chunks, final)
        self._count(chunks)
        part = part.consuming(chunk.path for chunk in chunks)
        return Rolled([number for number, _ in numbered], [part], sequences_used=names.used - used)

    def _compact(self, numbered: list[Numbered]) -> Rolled[PendingPart, Chunk]:
        chunks = [chunk for _, chunk in numbered]
        if chunks[0].format == ParquetFormat.name:
            file = self._merged(chunks)
            path, size = self._staging.chunk(file), file.size
        else:
            path, size = self._staging.join_to_chunk(chunks)
        self._count(chunks)
        return Rolled([number for number, _ in numbered], states=[Chunk.merged(chunks, path, size)])

    def _count(self, chunks: list[Chunk]) -> None:
        if len(chunks) > 1:
            self._metrics.add("chunks_merged", len(chunks))

    def _merged(self, chunks: list[Chunk]) -> StagedFile:
        file = self._staging.create()
        sources = (open_chunk(self._staging.layout, chunk) for chunk in chunks)
        merge_parquet(self._format if isinstance(self._format, ParquetFormat) else None, sources, file)
        return file

    def abort(self) -> None:
        """See the base class."""
        self._staging.abort()


def _by_part(states: Sequence[Chunk]) -> list[list[Numbered]]:
    """Chunks that may be merged, together, in the order in which they were written."""
    parts: dict[tuple[str, str], list[Numbered]] = {}
    for numbered in sorted(enumerate(states), key=lambda item: (item[1].created_ms, item[1].path)):
        parts.setdefault((numbered[1].bucket, numbered[1].fingerprint), []).append(numbered)
    return list(parts.values())


def _smallest(chunks: list[Numbered]) -> list[Numbered]:
    by_size = sorted(chunks, key=lambda numbered: numbered[1].size)
    taken = max(2, len(by_size) // 2)
    total = sum(chunk.size for _, chunk in by_size[:taken])
    while taken < len(by_size) and by_size[taken][1].size <= total:
        total += by_size[taken][1].size
        taken += 1
    return by_size[:taken]
