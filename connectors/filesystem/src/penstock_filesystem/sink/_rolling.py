"""Rolling: when an open part is closed and published, and how its chunks are merged until then."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.metrics import Metrics
from penstock.sink import StateReplacement, StateRoller
from penstock_filesystem.formats import FormatWriter, can_join_bytes, merge_files
from penstock_filesystem.options import SinkOptions
from penstock_filesystem.sink._committable import Chunk, PendingPart
from penstock_filesystem.sink._extensions import load_extension
from penstock_filesystem.sink.staging import StagedFile, Staging, open_chunk

__all__ = ["FileSystemRoller", "OnCheckpointRollingPolicy", "PartFileInfo", "RollingPolicy", "create_rolling_policy"]

Numbered = tuple[int, Chunk]

#: When everything is finished, a chunk of this size is a part of its own: merging runs in one process then.
LARGE_CHUNK_BYTES = 8 << 20


@dataclass(frozen=True)
class PartFileInfo:
    """An open part of one bucket: bytes so far, rows, and when its first and last rows were written (ms)."""

    bucket: str
    size: int
    rows: int
    created_ms: int
    last_write_ms: int

    @classmethod
    def of_chunks(cls, chunks: Sequence[Chunk]) -> PartFileInfo:
        """Describes the part that ``chunks`` (at least one, of one bucket) would be merged into."""
        return cls(
            chunks[0].bucket,
            chunks[0].size + sum(chunk.size - chunk.header for chunk in chunks[1:]),
            sum(chunk.rows for chunk in chunks),
            min(chunk.created_ms for chunk in chunks),
            max(chunk.last_write_ms for chunk in chunks),
        )


class RollingPolicy(ABC):
    """Decides when a part is closed.

    Users may write their own (option ``rollingPolicy``). Pickled to the tasks: holds configuration only.
    """

    @abstractmethod
    def should_roll_on_event(self, part: PartFileInfo) -> bool:
        """Returns whether the part is full. Called after rows were added, and for the chunks of a bucket together."""

    @abstractmethod
    def should_roll_on_processing_time(self, part: PartFileInfo, now_ms: int) -> bool:
        """Returns whether to publish the part as it is by now. Called once per batch, and while the query is idle."""

    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """Returns whether to publish the part with this batch, whatever its size. Called when the batch ends."""
        return False


@dataclass(frozen=True)
class DefaultRollingPolicy(RollingPolicy):
    """Rolls by size (bytes), age of the first row and inactivity (both ms)."""

    max_part_size: int
    rollover_interval_ms: int
    inactivity_interval_ms: int

    def should_roll_on_event(self, part: PartFileInfo) -> bool:
        """Returns whether the size is reached."""
        return part.size >= self.max_part_size

    def should_roll_on_processing_time(self, part: PartFileInfo, now_ms: int) -> bool:
        """Returns whether the part is old or inactive."""
        aged = now_ms - part.created_ms >= self.rollover_interval_ms
        return aged or now_ms - part.last_write_ms >= self.inactivity_interval_ms


@dataclass(frozen=True)
class OnCheckpointRollingPolicy(DefaultRollingPolicy):
    """Publishes everything with the batch that wrote it; by size within the batch."""

    def should_roll_on_processing_time(self, part: PartFileInfo, now_ms: int) -> bool:
        """Always returns True: what an earlier policy left open is published at once."""
        return True

    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """Always returns True."""
        return True


def create_rolling_policy(options: SinkOptions) -> RollingPolicy:
    """Creates the policy that the options ask for. Raises BadConfigurationError."""
    name = options.rolling_policy
    limits = (options.max_part_size, options.rollover_interval_ms, options.inactivity_interval_ms)
    if name.lower() == "oncheckpoint":
        return OnCheckpointRollingPolicy(*limits)
    if name.lower() == "default":
        return DefaultRollingPolicy(*limits)
    known = ("default", "onCheckpoint")
    policy: RollingPolicy = load_extension("rollingPolicy", name, known, options.values, RollingPolicy)
    return policy


class FileSystemRoller(StateRoller[PendingPart, Chunk]):
    """Merges the chunks of each bucket, and publishes parts that are due.

    Due parts (full, old, inactive, or all of them at the end) become parts of about the target size. A bucket with too
    many chunks gets its smallest ones merged, so that state and files stay few; since at least half of them are taken,
    and larger ones only as they are matched in size, a row is rewritten a logarithmic number of times.
    Memory: one row group for Parquet, else a few MiB.
    """

    def __init__(
        self,
        staging: Staging,
        format_writer: FormatWriter,
        policy: RollingPolicy,
        *,
        max_chunks: int,
        clock: Callable[[], int],
        metrics: Metrics,
    ) -> None:
        self._staging = staging
        self._format_writer = format_writer
        self._policy = policy
        self._max_chunks = max_chunks
        self._clock = clock
        self._metrics = metrics

    def roll(self, states: Sequence[Chunk], *, finish: bool) -> list[StateReplacement[PendingPart, Chunk]]:
        """Returns what replaces the chunks: parts to publish, and merged chunks."""
        rolled: list[StateReplacement[PendingPart, Chunk]] = []
        for chunks in _mergeable(states):
            if finish:
                large = [numbered for numbered in chunks if numbered[1].size >= LARGE_CHUNK_BYTES]
                rolled += [self._publish([numbered]) for numbered in large]
                chunks = [numbered for numbered in chunks if numbered not in large]
            if finish or self._is_due(chunks):
                rolled += [self._publish(part) for part in self._parts(chunks, with_rest=True)]
                continue
            full = self._parts(chunks, with_rest=False)
            rolled += [self._publish(part) for part in full]
            rest = chunks[sum(len(part) for part in full) :]
            if len(rest) > self._max_chunks:
                rolled.append(self._compact(_smallest(rest)))
        self._staging.sync()
        return rolled

    def _is_due(self, chunks: list[Numbered]) -> bool:
        part = PartFileInfo.of_chunks([chunk for _, chunk in chunks])
        return self._policy.should_roll_on_processing_time(part, self._clock() // 1_000_000)

    def _parts(self, chunks: list[Numbered], *, with_rest: bool) -> list[list[Numbered]]:
        """Groups chunks in their order, cut where the policy says that a part is full."""
        parts: list[list[Numbered]] = []
        current: list[Numbered] = []
        for numbered in chunks:
            current.append(numbered)
            if self._policy.should_roll_on_event(PartFileInfo.of_chunks([chunk for _, chunk in current])):
                parts.append(current)
                current = []
        return [*parts, current] if with_rest and current else parts

    def _publish(self, numbered: list[Numbered]) -> StateReplacement[PendingPart, Chunk]:
        chunks = [chunk for _, chunk in numbered]
        names = self._staging.names
        used = names.used
        final = names.final(chunks[0].bucket, chunks[0].extension)
        if not can_join_bytes(chunks[0].format) and len(chunks) > 1:
            part = self._staging.part(self._merged(chunks), final, sum(chunk.rows for chunk in chunks))
        else:
            part = self._staging.join_to_part(chunks, final)
        self._count(chunks)
        part = part.consuming(chunk.path for chunk in chunks)
        return StateReplacement([number for number, _ in numbered], [part], sequences_used=names.used - used)

    def _compact(self, numbered: list[Numbered]) -> StateReplacement[PendingPart, Chunk]:
        chunks = [chunk for _, chunk in numbered]
        if not can_join_bytes(chunks[0].format):
            file = self._merged(chunks)
            path, size = self._staging.chunk(file), file.size
        else:
            path, size = self._staging.join_to_chunk(chunks)
        self._count(chunks)
        return StateReplacement([number for number, _ in numbered], states=[Chunk.merged(chunks, path, size)])

    def _count(self, chunks: list[Chunk]) -> None:
        if len(chunks) > 1:
            self._metrics.add("chunks_merged", len(chunks))

    def _merged(self, chunks: list[Chunk]) -> StagedFile:
        file = self._staging.create()
        sources = (open_chunk(self._staging.layout, chunk) for chunk in chunks)
        merge_files(chunks[0].format, self._format_writer, sources, file)
        return file

    def abort(self) -> None:
        """Removes what this attempt made."""
        self._staging.abort()


def _mergeable(states: Sequence[Chunk]) -> list[list[Numbered]]:
    """Groups the chunks that may be merged, in the order in which they were written."""
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
