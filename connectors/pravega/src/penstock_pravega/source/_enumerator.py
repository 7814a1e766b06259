"""The enumerator: stream cuts that move on, micro-batch by micro-batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from penstock.errors import PenstockError, RetriableError
from penstock.source import EnumeratorContext, ReadLimits, SplitEnumerator
from penstock.source.log import LossPolicy
from penstock_pravega.options import CutPosition, SourceOptions
from penstock_pravega.source._alignment import SegmentAlignment, SegmentKey
from penstock_pravega.source._event_times import EventTimer
from penstock_pravega.source._progress import StreamProgress
from penstock_pravega.source._read_ahead import Marks, Share, read_ahead
from penstock_pravega.source._split import Cuts, PravegaState, SegmentRange
from penstock_pravega.source._stream_client import StreamClient

__all__ = ["PravegaSplitEnumerator"]

_log = logging.getLogger("penstock.pravega")
_FIRST_LOOK_MS = 120_000

#: Read ahead for a micro-batch without a limit, where segments are kept together in event time.
_UNLIMITED_BYTES = 64 << 20

AnswerT = TypeVar("AnswerT")


class PravegaSplitEnumerator(SplitEnumerator[SegmentRange, PravegaState]):
    """Hands out ranges of segments between two stream cuts. Its state is the cut reached, one for each stream.

    Where the segments of the cut end is asked for each micro-batch. What replaced a segment is looked for in the
    background once it was read to its end, and read in a later micro-batch than that end. With a limit, ranges are cut
    where an event ends, in proportion to the bytes that wait in each segment; where that is, is looked for in the
    background as well, for the micro-batch to come. With ``make_timer``, what is read ahead also tells event times, and
    segments are kept together in them.
    """

    def __init__(
        self,
        context: EnumeratorContext,
        client: StreamClient,
        options: SourceOptions,
        checkpoint: PravegaState | None,
        *,
        bounded: bool = False,
        make_timer: Callable[[], EventTimer] | None = None,
    ) -> None:
        self._context = context
        self._client = client
        self._options = options
        self._bounded = bounded
        self._make_timer = make_timer
        self._alignment = SegmentAlignment(options.event_time) if make_timer and options.event_time else None
        self._losses = LossPolicy(fail=options.fail_on_data_loss, metrics=context.metrics)
        self._streams: dict[str, StreamProgress] = {}
        self._stops: Cuts | None = None
        self._fixed_ends: Cuts | None = None
        self._begun = False
        self._failure: BaseException | None = None
        self._changed = False
        self._asking: set[SegmentKey] = set()
        self._ask_again_at: dict[SegmentKey, float] = {}
        self._marks: dict[SegmentKey, Marks] = {}
        self._reading_ahead: set[SegmentKey] = set()
        if checkpoint is not None:
            self._restore(checkpoint)

    # --- life ---------------------------------------------------------------------------------------------------------

    def _restore(self, state: PravegaState) -> None:
        self._follow(state.cuts)
        if self._options.stop is not None:
            self._stops = state.stops
        # An end that is no more must not go on standing in the last offset.
        self._changed = state.stops is not None and self._stops is None
        # A stream that the options name since, and an end that they name since, are still to be resolved.
        self._begun = set(self._options.streams) <= set(self._streams) and (
            self._options.stop is None or self._stops is not None
        )
        for stream in set(self._streams) - set(self._options.streams):
            del self._streams[stream]
            self._changed = True

    def _follow(self, cuts: Cuts) -> None:
        for stream, cut in cuts.items():
            self._streams[stream] = StreamProgress(stream, cut, self._client, self._losses)

    def start(self) -> None:
        """A bounded read looks in :meth:`prepare_for_available_now`."""
        if not self._bounded and not self._begun:
            self._ask_apart(self._first_look, self._on_first_look)

    def close(self) -> None:
        self._client.close()

    def _first_look(self) -> tuple[Cuts, Cuts | None]:
        start: CutPosition | None = self._options.start
        default = "head" if self._bounded else "tail"
        new = [stream for stream in self._options.streams if stream not in self._streams]
        cuts = {stream: self._resolve(stream, start.streams[stream] if start else default) for stream in new}
        stop = self._options.stop
        if stop is None or self._stops is not None:
            return cuts, self._stops
        stops = {stream: self._resolve(stream, stop.streams[stream]) for stream in self._options.streams}
        for stream, cut in cuts.items():
            self._client.check_order(stream, cut, stops[stream])
        return cuts, stops

    def _resolve(self, stream: str, position: str | Mapping[int, int]) -> dict[int, int]:
        if isinstance(position, Mapping):
            return dict(position)
        return self._client.head(stream) if position == "head" else self._client.tail(stream)

    def _on_first_look(self, found: tuple[Cuts, Cuts | None] | None, error: BaseException | None) -> None:
        if self._begun:
            return  # overtaken by the look before an available-now run
        if found is None:
            self._failure = error
            return
        cuts, self._stops = found
        self._follow(cuts)
        self._begun, self._changed = True, True
        self._failure = None  # of an earlier look, if nobody has asked since

    def _await_first_look(self) -> None:
        if not self._begun:
            self._context.await_handlers(lambda: self._begun or self._failure is not None, _FIRST_LOOK_MS)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self._ask_apart(self._first_look, self._on_first_look)
            raise failure
        if not self._begun:
            raise RetriableError(f"no answer about the streams within {_FIRST_LOOK_MS // 1000} s")

    def prepare_for_available_now(self) -> None:
        if not self._begun:
            self._on_first_look(self._first_look(), None)
        self._fixed_ends = {stream: self._client.tail(stream) for stream in self._streams}

    def snapshot_state(self) -> PravegaState:
        self._changed = False
        return PravegaState({stream: dict(one.cut) for stream, one in self._streams.items()}, self._stops)

    def wants_checkpoint(self) -> bool:
        """True once a place was found that another run might find elsewhere (the tail), or the cut moved on."""
        return self._changed

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _limits(self, stream: str) -> Mapping[int, int]:
        """Where reading stops for now, in the segments in which it does."""
        fixed = {} if self._fixed_ends is None else self._fixed_ends.get(stream, {})
        stops = {} if self._stops is None else self._stops.get(stream, {})
        both = {segment: min(fixed[segment], stops[segment]) for segment in fixed.keys() & stops.keys()}
        return {**fixed, **stops, **both}

    def is_exhausted(self) -> bool:
        if self._fixed_ends is None and self._stops is None:
            return False
        return all(self._is_at_its_end(one, self._limits(stream)) for stream, one in self._streams.items())

    def has_ended(self) -> bool:
        """The end that the user asked for is reached."""
        if self._stops is None:
            return False
        return all(self._is_at_its_end(one, self._stops.get(stream, {})) for stream, one in self._streams.items())

    @staticmethod
    def _is_at_its_end(progress: StreamProgress, limits: Mapping[int, int]) -> bool:
        for segment, offset in progress.cut.items():
            info = progress.infos.get(segment)
            sealed_end = info.end if info is not None and info.is_sealed and not limits else None
            if offset < limits.get(segment, offset + 1 if sealed_end is None else sealed_end):
                return False
        return True

    # --- micro-batches ------------------------------------------------------------------------------------------------

    def handle_split_request(self) -> SegmentRange | None:
        splits = self.take_batch(ReadLimits())
        self.add_splits_back(splits[1:])
        return splits[0] if splits else None

    def take_batch(self, limits: ReadLimits) -> list[SegmentRange]:
        self._await_first_look()
        for stream, progress in self._streams.items():
            self._look(stream, progress)
        if self._alignment is not None and limits.max_bytes is None and limits.max_records is None:
            limits = replace(limits, max_bytes=_UNLIMITED_BYTES)
        waiting = list(self._waiting())
        splits = self._shared_out(waiting, limits) if self._alignment is None else self._aligned(waiting, limits)
        for split in splits:
            self._streams[split.stream].cut[split.segment] = split.end
        if self._options.piece_bytes is None and not (limits.max_bytes is None and limits.max_records is None):
            self._read_ahead_of(splits, limits)
        return splits

    def _look(self, stream: str, progress: StreamProgress) -> None:
        before = dict(progress.cut)
        progress.look()
        while missing := progress.without_successors(self._limits(stream)):
            self._learn(stream, progress, missing)
            if not progress.move_on(self._limits(stream)):
                break
            progress.look()
        else:
            if progress.move_on(self._limits(stream)):
                progress.look()
        self._changed = self._changed or progress.cut != before

    def _learn(self, stream: str, progress: StreamProgress, missing: Sequence[int]) -> None:
        """Finds out what replaced segments: in the background, or at once where the end of a run is known."""
        if self._fixed_ends is not None:
            for segment in missing:
                progress.learn(segment, self._client.successors(stream, segment))
            return
        now = time.monotonic()
        for segment in missing:
            place = (stream, segment)
            if place not in self._asking and now >= self._ask_again_at.get(place, 0.0):
                self._asking.add(place)
                self._ask_in_background(place)

    def _ask_in_background(self, place: SegmentKey) -> None:
        stream, segment = place

        def on_answer(successors: Mapping[int, list[int]] | None, error: BaseException | None) -> None:
            self._asking.discard(place)
            if error is not None:
                _log.warning("looking for what replaced a segment of %s failed: %s", stream, error)
            if successors and stream in self._streams:
                self._streams[stream].learn(segment, successors)
            else:  # sealed for good, or a scaling on its way
                self._ask_again_at[place] = time.monotonic() + self._options.discovery_interval_ms / 1000

        self._ask_apart(lambda: self._client.successors(stream, segment), on_answer)

    def _waiting(self) -> Iterator[SegmentRange]:
        """Everything that may be read now. Segments of the same cut in the order of their numbers."""
        for stream, progress in sorted(self._streams.items()):
            limits = self._limits(stream)
            for segment, start in sorted(progress.cut.items()):
                info = progress.infos.get(segment)
                if info is not None:
                    end = min(info.end, limits.get(segment, info.end))
                    if start < end:
                        yield SegmentRange(stream, segment, start, end)

    def _shared_out(self, waiting: list[SegmentRange], limits: ReadLimits) -> list[SegmentRange]:
        if not waiting or (limits.max_bytes is None and limits.max_records is None):
            return waiting
        splits = []
        for share in _shares(waiting, limits):
            if self._options.piece_bytes is not None:  # bytes may be cut anywhere
                end = min(share.limit, share.start + max(1, share.max_bytes or 0))
                splits.append(SegmentRange(share.stream, share.segment, share.start, end))
            elif (marks := self._read_ahead(share)) is not None:
                splits.append(SegmentRange(share.stream, share.segment, share.start, int(marks.offsets[-1])))
        return splits

    def _aligned(self, waiting: list[SegmentRange], limits: ReadLimits) -> list[SegmentRange]:
        assert self._alignment is not None
        shares = {(share.stream, share.segment): share for share in (_shares(waiting, limits) if waiting else ())}
        ahead = {place: marks for place, share in shares.items() if (marks := self._read_ahead(share)) is not None}
        ends = {
            (stream, segment): info.end
            for stream, progress in self._streams.items()
            for segment, info in progress.infos.items()
            if segment in progress.cut
        }
        # What a run or the stream ends with is read, however far apart it is.
        more_may_come = self._fixed_ends is None and self._stops is None
        chosen = self._alignment.choose(ahead, ends, more_may_come=more_may_come)
        return [SegmentRange(*place, shares[place].start, end) for place, end in sorted(chosen.items())]

    def _read_ahead(self, share: Share) -> Marks | None:
        """The marks up to where ``share`` ends: known already, as a rule. ``None`` if not one event is whole."""
        place = (share.stream, share.segment)
        if (found := self._known_ahead(share)) is None:
            self._marks[place] = read_ahead(self._client, share, self._make_timer)
            found = self._marks[place].until(share)
        return found

    def _known_ahead(self, share: Share) -> Marks | None:
        marks = self._marks.get((share.stream, share.segment))
        behind = None if marks is None else marks.after(share.start)
        return None if behind is None else behind.until(share)

    def _read_ahead_of(self, taken: Sequence[SegmentRange], limits: ReadLimits) -> None:
        """Looks in the background where the ranges of the next micro-batch may end."""
        waiting = list(self._waiting())
        places = {(one.stream, one.segment) for one in waiting}
        self._marks = {place: marks for place, marks in self._marks.items() if place in places}
        for share in _shares(waiting, limits) if waiting and taken else ():
            place = (share.stream, share.segment)
            if place in self._reading_ahead or self._known_ahead(share) is not None:
                continue
            self._reading_ahead.add(place)

            def on_marks(found: Marks | None, error: BaseException | None, place: SegmentKey = place) -> None:
                self._reading_ahead.discard(place)
                if found is not None:
                    self._marks[place] = found
                elif not isinstance(error, PenstockError):
                    _log.warning("reading ahead in %s failed: %s", place[0], error)

            self._ask_apart(partial(read_ahead, self._client, share, self._make_timer), on_marks)

    def _ask_apart(
        self, question: Callable[[], AnswerT], on_answer: Callable[[AnswerT | None, BaseException | None], None]
    ) -> None:
        """In the background: a thread that asks once, by connections that end with it."""
        self._context.call_async(lambda: self._client.apart(question), on_answer)

    def add_splits_back(self, splits: Sequence[SegmentRange]) -> None:
        for split in splits:
            cut = self._streams[split.stream].cut
            cut[split.segment] = min(cut.get(split.segment, split.start), split.start)
            self._changed = True

    def describe_event_time(self) -> dict[str, Any]:
        """Empty if segments are not aligned."""
        return {} if self._alignment is None else self._alignment.describe()

    def describe_backlog(self) -> dict[str, int]:
        """``bytes`` waiting in all, and by stream, as of the last micro-batch."""
        lag = dict.fromkeys(self._streams, 0)
        for one in self._waiting():
            lag[one.stream] += one.size_bytes
        return {"bytes": sum(lag.values()), **lag}


def _shares(waiting: Sequence[SegmentRange], limits: ReadLimits) -> Iterator[Share]:
    """What each range may contribute, in proportion to the bytes that wait in it."""
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
