"""How far a stream has been read: its cut, which advances over scalings. Reports data that was truncated unread."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.source.log import LossPolicy
from penstock_pravega.client import KeyRange, SegmentInfo, StreamClient, epoch_of, short_name

__all__ = ["StreamProgress"]


class StreamProgress:
    """The cut of one stream. Coordinator thread only.

    At every moment the cut has, for each routing key, exactly one segment: segments that were read to their end stay in
    it until they are replaced, all that belong together at once. So order within a key holds, and what is stored is
    always a stream cut that other readers understand.
    """

    def __init__(self, stream: str, cut: Mapping[int, int], client: StreamClient, losses: LossPolicy) -> None:
        self.stream = stream
        self.cut = dict(cut)
        #: As of the last :meth:`refresh`.
        self.infos: dict[int, SegmentInfo] = {}
        self._client = client
        self._losses = losses
        self._successors: dict[int, Mapping[int, list[int]]] = {}

    def refresh(self, stops: Mapping[int, int]) -> None:
        """Asks where the segments of the cut end now. Reports what is gone, of what is to be read up to ``stops``, and
        leaves it out.
        """
        found = self._client.infos(self.stream, self.cut)
        # What is at or after the end of a bounded stream, nothing was going to read.
        gone = [
            one for one, info in found.items() if info is None and self.cut[one] < stops.get(one, self.cut[one] + 1)
        ]
        if gone:
            self._jump(gone)
            found = self._client.infos(self.stream, self.cut)
        self.infos = {segment: info for segment, info in found.items() if info is not None}
        for segment, info in self.infos.items():
            first = min(info.start, stops.get(segment, info.start))
            if self.cut[segment] < first:
                self._losses.report(
                    f"{self.stream}/{short_name(segment)}: its bytes {self.cut[segment]} to {first - 1} were "
                    "truncated before they were read"
                )
                self.cut[segment] = first

    def _is_unread(self, segment: int, stops: Mapping[int, int]) -> bool:
        """Returns whether more of ``segment`` is to be read: what is after the end of a bounded stream is not."""
        return segment not in stops or self.cut[segment] < stops[segment]

    def _jump(self, gone: Collection[int]) -> None:
        """Replaces segments that were truncated away by those at the head of the stream that have the same keys."""
        names = ", ".join(short_name(segment) for segment in sorted(gone))
        self._losses.report(f"{self.stream}: what was after the cut in {names} was truncated before it was read")
        for segment in gone:
            del self.cut[segment]
        kept = [self._client.key_range(self.stream, segment) for segment in self.cut]
        for segment, offset in self._client.head(self.stream).items():
            keys = self._client.key_range(self.stream, segment)
            if segment not in self.cut and not any(_overlap(keys, other) for other in kept):
                self.cut[segment] = offset

    def finished(self, limits: Mapping[int, int]) -> list[int]:
        """Returns segments that were read to their end and have no limit: their successors come next."""
        return [
            segment
            for segment, info in self.infos.items()
            if info.is_sealed and self.cut.get(segment, -1) >= info.end and segment not in limits
        ]

    def lacking_successors(self, limits: Mapping[int, int]) -> list[int]:
        """Returns finished segments whose successors are unknown."""
        return [segment for segment in self.finished(limits) if segment not in self._successors]

    def add_successors(self, segment: int, successors: Mapping[int, list[int]]) -> None:
        """Remembers what replaces ``segment``. An empty answer is not remembered: a scaling may be running."""
        if successors and segment in self.cut:
            self._successors[segment] = successors

    def move_on(self, limits: Mapping[int, int]) -> bool:
        """Replaces finished segments by their successors, once all that are replaced together are finished."""
        moved = False
        finished = set(self.finished(limits))
        for segment in sorted(finished, key=epoch_of):
            if segment not in self.cut or segment not in self._successors:
                continue
            old, new = self._replaced_together(segment)
            if old <= finished and all(one in self._successors for one in old):
                for one in old:
                    del self.cut[one]
                    self.infos.pop(one, None)
                    self._successors.pop(one)
                self.cut.update(dict.fromkeys(sorted(new), 0))
                moved = True
        return moved

    def _replaced_together(self, segment: int) -> tuple[set[int], set[int]]:
        """Returns the segments that are replaced together with ``segment``, and their successors."""
        old, new, unseen = {segment}, set[int](), [segment]
        while unseen:
            for successor, predecessors in self._successors.get(unseen.pop(), {}).items():
                new.add(successor)
                unseen += [one for one in predecessors if one not in old]
                old.update(predecessors)
        return old, new


def _overlap(one: KeyRange | None, other: KeyRange | None) -> bool:
    return one is not None and other is not None and one.low < other.high and other.low < one.high
