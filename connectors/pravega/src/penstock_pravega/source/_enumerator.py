"""The enumerator: stream cuts that advance, micro-batch by micro-batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from penstock.printable import get_logger
from penstock.source import BatchEnumerator, EnumeratorContext, ReadLimits
from penstock.source.log import FirstAnswer, LossPolicy
from penstock_pravega.client import StreamClient
from penstock_pravega.options import SourceOptions
from penstock_pravega.source._alignment import SegmentKey
from penstock_pravega.source._batch_ends import BatchEnds
from penstock_pravega.source._progress import StreamProgress
from penstock_pravega.source._split import Cuts, PravegaState, SegmentRange
from penstock_pravega.source._start_stop import resolve_starts, resolve_stops
from penstock_pravega.source._watermarks import EventTimer

__all__ = ["PravegaSplitEnumerator"]

_log = get_logger("penstock.pravega")

AnswerT = TypeVar("AnswerT")


class PravegaSplitEnumerator(BatchEnumerator[SegmentRange, PravegaState]):
    """Hands out ranges of segments between two stream cuts. Its state is the cut reached, one for each stream.

    Each micro-batch asks where the segments of the cut end. Once a segment is read to its end, its successors are
    looked up in the background and read in a later micro-batch. :class:`BatchEnds` applies the limits and aligns event
    times. Only the coordinator thread changes attributes: background calls return what they found.
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
        self._batch_ends = BatchEnds(client, options, self._call_in_background, make_timer)
        self._losses = LossPolicy(fail=options.fail_on_data_loss, metrics=context.metrics)
        self._streams: dict[str, StreamProgress] = {}
        self._stops: Cuts | None = None
        self._fixed_ends: Cuts | None = None
        self._first = FirstAnswer(context, "the streams", self._resolve_in_background)
        self._changed = False
        self._asking: set[SegmentKey] = set()
        self._ask_again_at: dict[SegmentKey, float] = {}
        if checkpoint is not None:
            self._restore(checkpoint)

    # --- life ---------------------------------------------------------------------------------------------------------

    def _restore(self, state: PravegaState) -> None:
        self._follow(state.cuts)
        if self._options.stop is not None:
            self._stops = state.stops
        # An end that the user has removed must not stay in the stored offset.
        self._changed = state.stops is not None and self._stops is None
        # Streams and an end that the options name only now are still to be resolved.
        self._first.is_known = set(self._options.streams) <= set(self._streams) and (
            self._options.stop is None or self._stops is not None
        )
        for stream in set(self._streams) - set(self._options.streams):
            del self._streams[stream]
            self._changed = True

    def _follow(self, cuts: Cuts) -> None:
        for stream, cut in cuts.items():
            self._streams[stream] = StreamProgress(stream, cut, self._client, self._losses)

    def start(self) -> None:
        """Resolves start and stop in the background. A bounded read does so in :meth:`prepare_for_available_now`."""
        if not self._bounded and not self._first.is_known:
            self._resolve_in_background()

    def close(self) -> None:
        """Ends the connections."""
        self._client.close()

    def _resolve_in_background(self) -> None:
        self._call_in_background(self._resolve_start_and_stop, self._on_resolved)

    def _resolve_start_and_stop(self) -> tuple[Cuts, Cuts | None]:
        new = [stream for stream in self._options.streams if stream not in self._streams]
        starts = resolve_starts(self._client, self._options, new, "head" if self._bounded else "tail")
        stops = resolve_stops(self._client, self._options, starts)
        return starts, stops if stops is None else {**stops, **(self._stops or {})}

    def _on_resolved(self, found: tuple[Cuts, Cuts | None] | None, error: BaseException | None) -> None:
        if self._first.is_known:
            return  # an available-now run has resolved them meanwhile
        if found is None:
            self._first.failed(error)
            return
        cuts, self._stops = found
        self._follow(cuts)
        self._changed = True
        self._first.arrived()

    def prepare_for_available_now(self) -> None:
        """Ends the run at the tail as it is now."""
        if not self._first.is_known:
            self._on_resolved(self._resolve_start_and_stop(), None)
        self._fixed_ends = {stream: self._client.tail(stream) for stream in self._streams}

    def snapshot_state(self) -> PravegaState:
        """Returns the cuts that were handed out so far, and the resolved ends."""
        self._changed = False
        return PravegaState({stream: dict(one.cut) for stream, one in self._streams.items()}, self._stops)

    def wants_checkpoint(self) -> bool:
        """True once a start was resolved that another run might resolve otherwise (the tail), or a cut advanced."""
        return self._changed

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _limits(self, stream: str) -> Mapping[int, int]:
        """Returns the offsets at which reading stops for now, for the segments that have one."""
        fixed = {} if self._fixed_ends is None else self._fixed_ends.get(stream, {})
        stops = {} if self._stops is None else self._stops.get(stream, {})
        both = {segment: min(fixed[segment], stops[segment]) for segment in fixed.keys() & stops.keys()}
        return {**fixed, **stops, **both}

    def is_exhausted(self) -> bool:
        """Returns whether every stream has been handed out up to its fixed end or its stop."""
        if self._fixed_ends is None and self._stops is None:
            return False
        return all(self._is_at_its_end(one, self._limits(stream)) for stream, one in self._streams.items())

    def has_ended(self) -> bool:
        """Returns whether the end that the user asked for is reached."""
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

    def take_batch(self, limits: ReadLimits) -> list[SegmentRange]:
        """Asks where segments end now, and hands out what the limits and the alignment allow."""
        self._first.wait()
        for stream, progress in self._streams.items():
            self._refresh(stream, progress)
        # All of a bounded run is read, however far apart its event times are.
        more_may_come = self._fixed_ends is None and self._stops is None
        splits = self._batch_ends.choose(list(self._waiting()), limits, self._ends, more_may_come=more_may_come)
        for split in splits:
            self._streams[split.stream].cut[split.segment] = split.end
        if splits:
            self._batch_ends.prepare_next(list(self._waiting()), limits)
        return splits

    def _ends(self) -> dict[SegmentKey, int]:
        """Returns where the segments of the cuts end now."""
        return {
            (stream, segment): info.end
            for stream, progress in self._streams.items()
            for segment, info in progress.infos.items()
            if segment in progress.cut
        }

    def _refresh(self, stream: str, progress: StreamProgress) -> None:
        before = dict(progress.cut)
        stops = {} if self._stops is None else self._stops.get(stream, {})
        progress.refresh(stops)
        while missing := progress.lacking_successors(self._limits(stream)):
            self._find_successors(stream, progress, missing)
            if not progress.move_on(self._limits(stream)):
                break
            progress.refresh(stops)
        else:
            if progress.move_on(self._limits(stream)):
                progress.refresh(stops)
        self._changed = self._changed or progress.cut != before

    def _find_successors(self, stream: str, progress: StreamProgress, missing: Sequence[int]) -> None:
        """Looks up successors: in the background, or at once in a run with fixed ends."""
        if self._fixed_ends is not None:
            for segment in missing:
                progress.add_successors(segment, self._client.successors(stream, segment))
            return
        now = time.monotonic()
        for segment in missing:
            key = (stream, segment)
            if key not in self._asking and now >= self._ask_again_at.get(key, 0.0):
                self._asking.add(key)
                self._ask_in_background(key)

    def _ask_in_background(self, key: SegmentKey) -> None:
        stream, segment = key

        def on_answer(successors: Mapping[int, list[int]] | None, error: BaseException | None) -> None:
            self._asking.discard(key)
            if error is not None:
                _log.warning("looking up the successors of a segment of %s failed: %s", stream, error)
            if successors and stream in self._streams:
                self._streams[stream].add_successors(segment, successors)
            else:  # the stream is sealed, or a scaling has not ended
                self._ask_again_at[key] = time.monotonic() + self._options.discovery_interval_ms / 1000

        self._call_in_background(lambda: self._client.successors(stream, segment), on_answer)

    def _waiting(self) -> Iterator[SegmentRange]:
        """Yields everything that may be read now, the segments of a stream in the order of their numbers."""
        for stream, progress in sorted(self._streams.items()):
            limits = self._limits(stream)
            for segment, start in sorted(progress.cut.items()):
                info = progress.infos.get(segment)
                if info is not None:
                    end = min(info.end, limits.get(segment, info.end))
                    if start < end:
                        yield SegmentRange(stream, segment, start, end)

    def _call_in_background(
        self, question: Callable[[], AnswerT], on_answer: Callable[[AnswerT | None, BaseException | None], None]
    ) -> None:
        """Calls ``question`` in another thread, with connections of its own, and ``on_answer`` in the coordinator's."""
        self._context.call_async(lambda: self._client.with_own_connections(question), on_answer)

    def add_splits_back(self, splits: Sequence[SegmentRange]) -> None:
        """Moves the cuts back, so that these ranges are handed out again."""
        for split in splits:
            cut = self._streams[split.stream].cut
            cut[split.segment] = min(cut.get(split.segment, split.start), split.start)
            self._changed = True

    def describe_event_time(self) -> dict[str, Any]:
        """Returns what the alignment says; empty if segments are not aligned."""
        return self._batch_ends.describe_event_time()

    def describe_backlog(self) -> dict[str, int]:
        """Returns the ``bytes`` that wait in all, and by stream, as of the last micro-batch."""
        lag = dict.fromkeys(self._streams, 0)
        for one in self._waiting():
            lag[one.stream] += one.size_bytes
        return {"bytes": sum(lag.values()), **lag}
