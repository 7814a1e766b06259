"""The partitions that are read, kept in step with the system: finds new ones, and distinguishes real loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.printable import get_logger
from penstock.source.log._contracts import LogState
from penstock.source.log._discovery import Discovery
from penstock.source.log._losses import LossPolicy
from penstock.source.log._positions import LogPartition

__all__ = ["TrackedPartitions", "shown"]

_log = get_logger("penstock.source")
#: Of partitions that are gone; more are forgotten, the ones that went first.
_MOST_GONE = 10_000


class TrackedPartitions:
    """One position for each partition, and the incarnation of each stream. Used by the coordinator thread.

    ``gone``: the positions of partitions that can't be found any more, for the case that they come back. ``left_out``:
    partitions of the state that the options do not ask for any more; they are forgotten, and not missed.
    """

    def __init__(self, state: LogState, losses: LossPolicy, selects: Callable[[LogPartition], bool]) -> None:
        self.positions = {partition: at for partition, at in state.positions.items() if selects(partition)}
        self.left_out = state.positions.keys() - self.positions.keys()
        if self.left_out:
            _log.warning("%s is not read any more: the options do not name it now", shown(self.left_out))
        self.incarnations = dict(state.incarnations)
        self.gone = dict(state.gone)
        self._losses = losses
        self._missing: set[LogPartition] = set()

    def check(self, found: Discovery, stops: Mapping[LogPartition, int]) -> None:
        """Compares with ``found`` and reports what is lost. Unknown partitions are left to :meth:`unknown`.

        ``stops`` are the ends of a bounded stream. What is at or after them was not going to be read, and is no loss.
        """
        self.check_incarnations(found, stops)
        self._check_missing(found, stops)
        self._bring_back(found)
        self._check_retention(found, stops)
        for stream, incarnation in found.incarnations.items():
            self.incarnations.setdefault(stream, incarnation)

    def unknown(self, found: Discovery) -> tuple[list[LogPartition], list[LogPartition]]:
        """Partitions of ``found`` that are not tracked yet: those of streams that are, and those of others."""
        known = {partition.stream for partition in self.positions}
        new = [partition for partition in found.earliest if partition not in self.positions]
        return [p for p in new if p.stream in known], [p for p in new if p.stream not in known]

    def unread(self, stops: Mapping[LogPartition, int]) -> set[LogPartition]:
        """Returns the partitions that are to be read further, before ``stops``."""
        return {partition for partition, at in self.positions.items() if at < stops.get(partition, at + 1)}

    def check_incarnations(self, found: Discovery, stops: Mapping[LogPartition, int]) -> None:
        """Reports streams that were deleted and re-created with the same name, and forgets their partitions.

        One that is gone altogether was reported when it went.
        """
        for stream, incarnation in found.incarnations.items():
            before = self.incarnations.get(stream, incarnation)
            if before == incarnation:
                continue
            self.incarnations[stream] = incarnation
            self.gone = {p: at for p, at in self.gone.items() if p.stream != stream}
            if not any(p.stream == stream for p in self.unread(stops)):
                continue
            reached = ", ".join(f"{p} offset {at}" for p, at in sorted(self.positions.items()) if p.stream == stream)
            self._losses.report(
                f"'{stream}' was deleted and re-created (id {before} is now {incarnation}): what it held after "
                f"{reached} is gone"
            )
            self._forget([p for p in self.positions if p.stream == stream])

    def _check_missing(self, found: Discovery, stops: Mapping[LogPartition, int]) -> None:
        """Reports missing partitions. Missing once, a broker may not know them yet; twice in a row, they are gone."""
        missing = self.unread(stops) - found.earliest.keys()
        gone = missing & self._missing
        if gone:
            streams = sorted({partition.stream for partition in gone})
            self._losses.report(
                f"{shown(gone)} can't be found any more: '{streams[0]}' was deleted, or this user may not describe it"
            )
            self.gone |= {p: self.positions[p] for p in sorted(gone) if p.stream in self.incarnations}
            self._forget(gone)
            self._forget_the_first_gone()
        self._missing = missing - gone

    def _forget_the_first_gone(self) -> None:
        self.gone = dict(list(self.gone.items())[-_MOST_GONE:])
        streams = {partition.stream for partition in (*self.positions, *self.gone)}
        self.incarnations = {stream: at for stream, at in self.incarnations.items() if stream in streams}

    def _bring_back(self, found: Discovery) -> None:
        """Continues a stream that returned with the same id: it was away, or brokers did not know of it."""
        back = [p for p in found.earliest if p in self.gone and p.stream in found.incarnations]
        for partition in back:
            self.positions[partition] = self.gone.pop(partition)
        if back:
            _log.warning("%s can be found again, with the same id: continuing where the query stopped", shown(back))

    def _check_retention(self, found: Discovery, stops: Mapping[LogPartition, int]) -> None:
        for partition, earliest in found.earliest.items():
            position = self.positions.get(partition)
            first = min(earliest, stops.get(partition, earliest))
            if position is not None and position < first:
                self._losses.report(
                    f"{partition}: offsets {position} to {first - 1} were dropped before they were read",
                    first - position,
                )
                self.positions[partition] = first

    def _forget(self, partitions: Iterable[LogPartition]) -> None:
        for partition in partitions:
            del self.positions[partition]


def shown(partitions: Iterable[LogPartition], most: int = 5) -> str:
    """Returns the first few by name, and how many more there are."""
    listed = sorted(partitions)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(str(partition) for partition in listed[:most]) + more
