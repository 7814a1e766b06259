"""Rolling policies: when an open part is closed and published."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.options import OptionValues
from penstock_filesystem.sink._extensions import load_extension
from penstock_filesystem.sink._state import Chunk

__all__ = ["DefaultRollingPolicy", "OnCheckpointRollingPolicy", "PartFileInfo", "RollingPolicy", "rolling_policy"]


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
        """The part that ``chunks`` (at least one, of one bucket) would be merged into."""
        return cls(
            chunks[0].bucket,
            chunks[0].size + sum(chunk.size - chunk.header for chunk in chunks[1:]),
            sum(chunk.rows for chunk in chunks),
            min(chunk.created_ms for chunk in chunks),
            max(chunk.last_write_ms for chunk in chunks),
        )


class RollingPolicy(ABC):
    """Decides when a part is closed. Pickled to the tasks: holds configuration only."""

    @abstractmethod
    def should_roll_on_event(self, part: PartFileInfo) -> bool:
        """Asked after rows were added, and of the chunks of a bucket together: is the part full?"""

    @abstractmethod
    def should_roll_on_processing_time(self, part: PartFileInfo, now_ms: int) -> bool:
        """Asked once per batch, and while the query is idle: is it time to publish the part as it is?"""

    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """Asked when the batch ends: publish the part with this batch, whatever its size?"""
        return False


@dataclass(frozen=True)
class DefaultRollingPolicy(RollingPolicy):
    """Rolls by size (bytes), age of the first row and inactivity (both ms)."""

    max_part_size: int
    rollover_interval_ms: int
    inactivity_interval_ms: int

    def should_roll_on_event(self, part: PartFileInfo) -> bool:
        """By size."""
        return part.size >= self.max_part_size

    def should_roll_on_processing_time(self, part: PartFileInfo, now_ms: int) -> bool:
        """By age and inactivity."""
        aged = now_ms - part.created_ms >= self.rollover_interval_ms
        return aged or now_ms - part.last_write_ms >= self.inactivity_interval_ms


@dataclass(frozen=True)
class OnCheckpointRollingPolicy(DefaultRollingPolicy):
    """Publishes everything with the batch that wrote it; by size within the batch."""

    def should_roll_on_processing_time(self, part: PartFileInfo, now_ms: int) -> bool:
        """Always: what an earlier policy left open is published at once."""
        return True

    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """Always."""
        return True


def rolling_policy(options: OptionValues) -> RollingPolicy:
    """The policy that the options ask for. Raises BadConfigurationError."""
    name = options["rollingPolicy"]
    limits = (options["maxPartSize"], options["rolloverInterval"], options["inactivityInterval"])
    if name.lower() == "oncheckpoint" or (options["rollOnCheckpoint"] and name == "default"):
        return OnCheckpointRollingPolicy(*limits)
    if name.lower() == "default":
        return DefaultRollingPolicy(*limits)
    policy: RollingPolicy = load_extension("rollingPolicy", name, ("default", "onCheckpoint"), options, RollingPolicy)
    return policy
