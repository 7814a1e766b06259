"""Logs: partitions with records at growing positions (Kafka's topics, Pravega's segments, …).

A connector of such a system writes a :class:`LogClient` (what is there), a split reader (records of a range) and
declares a :class:`LogSource`; the template does the rest: where to start and stop, how much to take for a micro-batch,
how to share it among tasks, finding new partitions, telling loss from gaps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.source.event_time import EventTimeSettings
from penstock.source.log._positions import Earliest, Latest, LogPartition, StartPosition, StopPosition

__all__ = ["LogClient", "LogOptions", "LogSplit", "LogState"]


@dataclass(frozen=True)
class LogSplit:
    """Positions ``start`` (inclusive) to ``end`` (exclusive) of one partition: at most ``end - start`` records.

    ``incarnation`` is the id of the stream for which the range was planned; empty where the system has none. Readers
    compare: a stream that was deleted and re-created in between has other records at these positions.
    """

    stream: str
    partition: int
    start: int
    end: int
    incarnation: str = ""

    @property
    def log_partition(self) -> LogPartition:
        """Whose positions these are."""
        return LogPartition(self.stream, self.partition)

    @property
    def split_id(self) -> str:
        """See :class:`penstock.source.SourceSplit`."""
        return f"{self.stream}-{self.partition}@{self.start}"

    @property
    def records(self) -> int:
        """How many records at most."""
        return self.end - self.start

    @property
    def size_bytes(self) -> int:
        """Positions know no bytes; records stand for them, at a guess of 100 bytes each."""
        return self.records * 100

    @property
    def group(self) -> str:
        """The partition."""
        return str(self.log_partition)


@dataclass(frozen=True)
class LogState:
    """What of each partition has been handed out: the stream's offset.

    Size: one number for each partition. ``incarnations`` identifies a stream that was deleted and re-created with the
    same name (its id; absent where the system has none). ``stops`` holds the resolved ends of a bounded stream, so that
    a restart ends where the first run would have; ``None`` for an unbounded one. ``gone`` holds the positions of
    partitions that can't be found any more: of a stream whose id is known, which may come back as the same one.
    """

    positions: Mapping[LogPartition, int] = field(default_factory=dict)
    incarnations: Mapping[str, str] = field(default_factory=dict)
    stops: Mapping[LogPartition, int] | None = None
    gone: Mapping[LogPartition, int] = field(default_factory=dict)


class LogClient(ABC):
    """What there is in the log, asked on the driver. Methods are called from several threads at once.

    Every method raises :class:`penstock.errors.RetriableError` if the system can't be reached and
    :class:`penstock.errors.BadConfigurationError` if it refuses. Partitions that do not exist (any more) are left out
    of the answers.
    """

    @abstractmethod
    def list_partitions(self) -> Mapping[str, tuple[str, int]]:
        """Returns what the options ask for and exists now: stream → (incarnation, number of its partitions)."""

    def selects(self, partition: LogPartition) -> bool:
        """Returns whether the options ask for ``partition``. One that a checkpoint holds, and they do not ask for any
        more, is forgotten.
        """
        return True

    def absent(self, found: Collection[LogPartition]) -> Sequence[str]:
        """Returns what the options name and is not among ``found``, in words for the user: an error at the very first
        look.
        """
        return ()

    @abstractmethod
    def earliest(self, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int]:
        """Returns the position of the first record that is there, or would be."""

    @abstractmethod
    def latest(self, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int]:
        """Returns the position after the last record that may be read now. Called for every micro-batch: one round
        trip.
        """

    def end(self, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int]:
        """Returns the position after the last record that is there, readable (yet) or not. Default: :meth:`latest`."""
        return self.latest(partitions)

    @abstractmethod
    def at_timestamp(self, times_ms: Mapping[LogPartition, int]) -> Mapping[LogPartition, int | None]:
        """Returns the position of the first record at or after each time; ``None`` if there is none."""

    @abstractmethod
    def committed(self, group: str, partitions: Collection[LogPartition]) -> Mapping[LogPartition, int | None]:
        """Returns what the consumer group ``group`` committed; ``None`` for nothing."""

    @abstractmethod
    def commit(self, group: str, positions: Mapping[LogPartition, int]) -> None:
        """Commits for the consumer group ``group``. Called from a background thread."""

    @abstractmethod
    def close(self) -> None:
        """Ends connections."""


@dataclass(frozen=True)
class LogOptions:
    """What the template needs to know.

    ``start`` is for a stream without a checkpoint, ``batch_start`` for a bounded read; ``stop`` (None: never) bounds
    both, a bounded read stops at the latest otherwise. ``new_partitions_start`` is for partitions that appear in a
    known stream, ``new_streams_start`` for streams that appear later. Limits are in records per micro-batch; a batch
    waits for ``min_records`` for at most ``max_trigger_delay_ms``. ``min_partitions`` and ``max_records_per_partition``
    split partitions over tasks. ``commit_group``: the consumer group that finished batches are committed to as well, if
    any. A partition that ends before the position reached is looked at ``retries`` times more, every
    ``retry_interval_ms``, before its records count as lost. With ``event_time``, partitions of a stream are aligned by
    it.
    """

    start: StartPosition = field(default_factory=Latest)
    batch_start: StartPosition = field(default_factory=Earliest)
    stop: StopPosition | None = None
    new_partitions_start: Earliest | Latest = field(default_factory=Earliest)
    new_streams_start: Earliest | Latest = field(default_factory=Earliest)
    max_records: int | None = None
    min_records: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    discovery_interval_ms: int = 10_000
    commit_group: str | None = None
    retries: int = 3
    retry_interval_ms: int = 1_000
    event_time: EventTimeSettings | None = None
