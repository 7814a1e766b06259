"""How far a stream has been read: its cut, moved on over scalings, and what is lost told."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.source.log import LossPolicy
from penstock_pravega.client import KeyRange, SegmentInfo, epoch_of, short_name
from penstock_pravega.source._stream_client import StreamClient

__all__ = ["StreamProgress"]


class StreamProgress:
    """The cut of one stream. Used by the coordinator thread.

    At every moment the cut has, for each routing key, exactly one segment: segments that were read to their end stay in
    it until they are replaced, all that belong together at once. So order within a key holds, and what is stored is
    always a stream cut that other readers understand.
    """

    def __init__(self, stream: str, cut: Mapping[int, int], client: StreamClient, losses: LossPolicy) -> None:
        self.stream = stream
        self.cut = dict(cut)
        #: As of the last :meth:`look`.
        self.infos: dict[int, SegmentInfo] = {}
        self._client = client
        self._losses = losses
        self._successors: dict[int, Mapping[int, list[int]]] = {}

    def look(self) -> None:
        """Asks where the segments of the cut end now. What is gone is reported, and left out."""
        found = self._client.infos(self.stream, self.cut)
        gone = [segment for segment, info in found.items() if info is None]
        if gone:
            self._jump(gone)
            found = self._client.infos(self.stream, self.cut)
        self.infos = {segment: info for segment, info in found.items() if info is not None}
        for segment, info in self.infos.items():
            if self.cut[segment] < info.start:
                self._losses.report(
                    f"{self.stream}/{short_name(segment)}: its bytes {self.cut[segment]} to {info.start - 1} were "
                    "truncated before they were read"
                )
                self.cut[segment] = info.start

    def _jump(self, gone: Collection[int]) -> None:
        """Segments were truncated away as a whole: goes on at the head of the stream, as far as their keys go."""
        names = ", ".join(short_name(segment) for segment in sorted(gone))
        self._losses.report(f"{self.stream}: what was behind the cut in {names} was truncated before it was read")
        for segment in gone:
            del self.cut[segment]
        kept = [self._client.key_range(self.stream, segment) for segment in self.cut]
        for segment, offset in self._client.head(self.stream).items():
            keys = self._client.key_range(self.stream, segment)
            if segment not in self.cut and not any(_overlap(keys, other) for other in kept):
                self.cut[segment] = offset

    def finished(self, limits: Mapping[int, int]) -> list[int]:
        """Segments that were read to their end, beyond which the reading goes on (there is no limit in them)."""
        return [
            segment
            for segment, info in self.infos.items()
            if info.is_sealed and self.cut.get(segment, -1) >= info.end and segment not in limits
        ]

    def without_successors(self, limits: Mapping[int, int]) -> list[int]:
        """Those of them of which it is not known what replaces them."""
        return [segment for segment in self.finished(limits) if segment not in self._successors]

    def learn(self, segment: int, successors: Mapping[int, list[int]]) -> None:
        """What replaces ``segment``; nothing is not remembered: a scaling may be on its way."""
        if successors and segment in self.cut:
            self._successors[segment] = successors

    def move_on(self, limits: Mapping[int, int]) -> bool:
        """Replaces finished segments by their successors, where all that belong together are finished."""
        moved = False
        finished = set(self.finished(limits))
        for segment in sorted(finished, key=epoch_of):
            if segment not in self.cut or segment not in self._successors:
                continue
            old, new = self._together(segment)
            if old <= finished and all(one in self._successors for one in old):
                for one in old:
                    del self.cut[one]
                    self.infos.pop(one, None)
                    self._successors.pop(one)
                self.cut.update(dict.fromkeys(sorted(new), 0))
                moved = True
        return moved

    def _together(self, segment: int) -> tuple[set[int], set[int]]:
        """Segments that are replaced together, and by which: successors share predecessors, and the other way round."""
        old, new, unseen = {segment}, set[int](), [segment]
        while unseen:
            for successor, predecessors in self._successors.get(unseen.pop(), {}).items():
                new.add(successor)
                unseen += [one for one in predecessors if one not in old]
                old.update(predecessors)
        return old, new


def _overlap(one: KeyRange | None, other: KeyRange | None) -> bool:
    return one is not None and other is not None and one.low < other.high and other.low < one.high
