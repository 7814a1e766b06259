"""Where the ranges of a micro-batch end: at what the limits allow, at the end of an event, aligned in event time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.errors import PenstockError
from penstock.printable import get_logger
from penstock.source import ReadLimits
from penstock_pravega.client import StreamClient
from penstock_pravega.options import SourceOptions
from penstock_pravega.source._alignment import SegmentAlignment, SegmentKey
from penstock_pravega.source._read_ahead import EventEnds, Share, read_ahead
from penstock_pravega.source._split import SegmentRange
from penstock_pravega.source._watermarks import EventTimer

__all__ = ["BatchEnds"]

_log = get_logger("penstock.pravega")

#: Read ahead for a micro-batch without a limit, where segments are aligned in event time.
_UNLIMITED_BYTES = 64 << 20


class BatchEnds:
    """Cuts what may be read to a micro-batch. Coordinator thread only.

    ``call_in_background(call, on_result)`` runs ``call`` in another thread and ``on_result`` in the coordinator's: so
    only the coordinator's changes attributes. With ``make_timer``, segments are aligned.
    """

    def __init__(
        self,
        client: StreamClient,
        options: SourceOptions,
        call_in_background: Callable[[Callable[[], Any], Callable[[Any, BaseException | None], None]], None],
        make_timer: Callable[[], EventTimer] | None,
    ) -> None:
        self._client = client
        self._piece_bytes = options.piece_bytes
        self._call_in_background = call_in_background
        self._make_timer = make_timer
        self._alignment = SegmentAlignment(options.event_time) if make_timer and options.event_time else None
        self._ahead: dict[SegmentKey, EventEnds] = {}
        self._reading_ahead: set[SegmentKey] = set()

    @property
    def aligns(self) -> bool:
        """Whether segments are aligned in event time."""
        return self._alignment is not None

    def choose(
        self,
        waiting: Sequence[SegmentRange],
        limits: ReadLimits,
        ends: Callable[[], Mapping[SegmentKey, int]],
        *,
        more_may_come: bool,
    ) -> list[SegmentRange]:
        """Returns the ranges of the next micro-batch. Arguments as in :meth:`SegmentAlignment.choose`."""
        if self._alignment is None:
            return self._limited(waiting, limits)
        shares = {(share.stream, share.segment): share for share in _shares(waiting, self._effective(limits))}
        ahead = {key: found for key, share in shares.items() if (found := self._read_until(share)) is not None}
        chosen = self._alignment.choose(ahead, ends(), more_may_come=more_may_come)
        return [SegmentRange(*key, shares[key].start, end) for key, end in sorted(chosen.items())]

    def _limited(self, waiting: Sequence[SegmentRange], limits: ReadLimits) -> list[SegmentRange]:
        if _is_unlimited(limits):
            return list(waiting)
        splits = []
        for share in _shares(waiting, limits):
            if self._piece_bytes is not None:  # bytes may be cut anywhere
                end = min(share.limit, share.start + max(1, share.max_bytes or 0))
                splits.append(SegmentRange(share.stream, share.segment, share.start, end))
            elif (found := self._read_until(share)) is not None:
                splits.append(SegmentRange(share.stream, share.segment, share.start, int(found.offsets[-1])))
        return splits

    def _effective(self, limits: ReadLimits) -> ReadLimits:
        return replace(limits, max_bytes=_UNLIMITED_BYTES) if self.aligns and _is_unlimited(limits) else limits

    def _read_until(self, share: Share) -> EventEnds | None:
        """Returns the ends within ``share``, known already as a rule; ``None`` if not one event is whole."""
        if (found := self._known(share)) is None:
            key = (share.stream, share.segment)
            self._ahead[key] = read_ahead(self._client, share, self._make_timer)
            found = self._ahead[key].until(share)
        return found

    def _known(self, share: Share) -> EventEnds | None:
        ahead = self._ahead.get((share.stream, share.segment))
        behind = None if ahead is None else ahead.after(share.start)
        return None if behind is None else behind.until(share)

    def prepare_next(self, waiting: Sequence[SegmentRange], limits: ReadLimits) -> None:
        """Reads ahead in the background for the next micro-batch. Does nothing if no end has to be known for it."""
        limits = self._effective(limits)
        if self._piece_bytes is not None or _is_unlimited(limits):
            return
        keys = {(one.stream, one.segment) for one in waiting}
        self._ahead = {key: found for key, found in self._ahead.items() if key in keys}
        for share in _shares(waiting, limits):
            key = (share.stream, share.segment)
            if key not in self._reading_ahead and self._known(share) is None:
                self._reading_ahead.add(key)
                call = partial(read_ahead, self._client, share, self._make_timer)
                self._call_in_background(call, partial(self._on_read, key))

    def _on_read(self, key: SegmentKey, found: EventEnds | None, error: BaseException | None) -> None:
        self._reading_ahead.discard(key)
        if found is not None:
            self._ahead[key] = found
        elif not isinstance(error, PenstockError):
            _log.warning("reading ahead in %s failed: %s", key[0], error)

    def describe_event_time(self) -> dict[str, Any]:
        """Returns what the alignment says of its last choice; empty if segments are not aligned."""
        return {} if self._alignment is None else self._alignment.describe()


def _is_unlimited(limits: ReadLimits) -> bool:
    return limits.max_bytes is None and limits.max_records is None


def _shares(waiting: Sequence[SegmentRange], limits: ReadLimits) -> Iterator[Share]:
    """Yields what each range may contribute, in proportion to the bytes that wait in it."""
    total = sum(one.size_bytes for one in waiting)
    for one in waiting:
        yield Share(
            one.stream,
            one.segment,
            one.start,
            one.end,
            None if limits.max_bytes is None else limits.max_bytes * one.size_bytes // total,
            None if limits.max_records is None else max(1, limits.max_records * one.size_bytes // total),
        )
