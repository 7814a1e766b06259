"""The enumerator of every log source: positions that move on, micro-batch by micro-batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from penstock.errors import BadConfigurationError
from penstock.printable import get_logger
from penstock.source._contracts import BatchEnumerator, EnumeratorContext, ReadLimits
from penstock.source.log._alignment import Alignment
from penstock.source.log._contracts import LogClient, LogOptions, LogSplit, LogState
from penstock.source.log._discovery import Discovery, discover
from penstock.source.log._first_answer import FirstAnswer
from penstock.source.log._group_commits import GroupCommits
from penstock.source.log._limits import cut, take_share
from penstock.source.log._losses import LossPolicy
from penstock.source.log._positions import Earliest, GroupOffsets, Latest, LogPartition, StopPosition
from penstock.source.log._start_stop import resolve
from penstock.source.log._tracking import TrackedPartitions, shown

__all__ = ["LogEnumerator"]

_log = get_logger("penstock.source")

AnswerT = TypeVar("AnswerT")


class LogEnumerator(BatchEnumerator[LogSplit, LogState]):
    """Hands out ranges of partitions, in proportion to what waits in each. Its state is one position a partition.

    Partitions and streams that appear are found in the background, every ``discovery_interval_ms``; how far they can be
    read is asked for each micro-batch. What is lost is reported once it is sure: a stream that stays away over two
    discoveries or has come back by the same name, records that the log has dropped before they were handed out, a log
    that ends before the position reached.
    """

    def __init__(
        self,
        context: EnumeratorContext,
        client: LogClient,
        options: LogOptions,
        checkpoint: LogState | None,
        *,
        bounded: bool = False,
        alignment: Alignment | None = None,
    ) -> None:
        self._context = context
        self._client = client
        self._options = options
        self._bounded = bounded
        self._alignment = alignment
        self._fresh = checkpoint is None
        state = checkpoint or LogState()
        self._losses = LossPolicy(fail=options.fail_on_data_loss, metrics=context.metrics)
        self._tracked = TrackedPartitions(state, self._losses, client.selects)
        self._stops = state.stops if options.stop is not None else None
        self._ends: Mapping[LogPartition, int] = {}
        self._fixed_ends: Mapping[LogPartition, int] | None = None
        self._not_read: set[LogPartition] = set()
        self._first = FirstAnswer(context, "partitions")
        self._applied_at = float("-inf")
        # An end that no longer applies must not stay in the last offset.
        self._changed = (state.stops is not None and options.stop is None) or bool(self._tracked.left_out)
        self._last_batch = float("-inf")
        group = options.commit_group
        self._group_commits = None if group is None else GroupCommits(context, client, group)

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A bounded read looks once, in :meth:`prepare_for_available_now`."""
        if not self._bounded:
            interval = self._options.discovery_interval_ms
            self._context.call_async(self._discover, self._on_discovery, interval_ms=interval)

    def close(self) -> None:
        if self._group_commits is not None:
            self._group_commits.finish()
        self._client.close()

    def snapshot_state(self) -> LogState:
        self._changed = False
        tracked = self._tracked
        return LogState(dict(self._positions), dict(tracked.incarnations), self._stops, dict(tracked.gone))

    def wants_checkpoint(self) -> bool:
        """True once positions were found that another run might find elsewhere (the latest, a time without records)."""
        return self._changed

    def prepare_for_available_now(self) -> None:
        self._apply(self._discover())
        self._fixed_ends = self._ask_ends()
        if self._bounded and self._options.fail_on_data_loss:
            self._refuse_unreachable_stops(self._fixed_ends)

    def is_exhausted(self) -> bool:
        ends = self._stops if self._fixed_ends is None else self._fixed_ends
        return ends is not None and self._reaches(ends, {})

    def has_ended(self) -> bool:
        return self._stops is not None and self._reaches(self._stops, {})

    @property
    def _positions(self) -> dict[LogPartition, int]:
        return self._tracked.positions

    # --- finding partitions -------------------------------------------------------------------------------------------

    def _discover(self) -> Discovery:
        return discover(self._client)

    def _on_discovery(self, found: Discovery | None, error: BaseException | None) -> None:
        if found is not None:
            self._apply(found)
        elif not self._first.is_known:
            self._first.failed(error)
        else:
            _log.warning("could not look for new partitions, trying again later: %s", error)

    def _apply(self, found: Discovery) -> None:
        if found.asked_at < self._applied_at:
            return  # overtaken by a younger one
        if not self._first.is_known and self._fresh:
            self._begin(found)
        else:
            self._tracked.check(found, self._stops or {})
            if self._fixed_ends is not None:  # those of partitions that are gone, or re-created, mean nothing
                self._fixed_ends = {p: end for p, end in self._fixed_ends.items() if p in self._positions}
            self._fix_stops()
            self._add_unknown(found)
        self._applied_at = found.asked_at
        self._first.arrived()

    def _begin(self, found: Discovery) -> None:
        """The very first look of a stream or of a bounded read."""
        options, partitions = self._options, list(found.earliest)
        absent = self._client.absent(partitions)
        if absent:
            raise BadConfigurationError(
                f"{', '.join(absent)} can't be read: it does not exist, or this user may not describe it"
            )
        start = options.batch_start if self._bounded else options.start
        starts = self._ask(lambda: resolve(self._client, start, partitions, "start"))
        self._positions.update(starts)
        self._fix_stops()
        if not isinstance(start, GroupOffsets):  # how far a group has come is not for the user to say
            self._refuse_stops_before(starts)
        self._tracked.check(found, self._stops or {})
        self._changed = True

    def _refuse_stops_before(self, starts: Mapping[LogPartition, int]) -> None:
        for partition, start in sorted(starts.items()):
            stop = (self._stops or {}).get(partition, start)
            if stop < start:
                raise BadConfigurationError(f"start: {partition} would start at {start}, after its end at {stop}")

    def _fix_stops(self) -> None:
        """Turns the end of a bounded stream or read into positions, once; they are a part of the state."""
        stop: StopPosition | None = self._options.stop or (Latest() if self._bounded else None)
        if stop is not None and self._stops is None:
            self._stops = self._ask(lambda: resolve(self._client, stop, list(self._positions), "stop"))
            self._changed = True

    def _add_unknown(self, found: Discovery) -> None:
        of_known_streams, of_new_streams = self._tracked.unknown(found)
        if self._stops is not None:  # a bounded stream reads what was there when its end was fixed
            added = set(of_known_streams + of_new_streams) - self._not_read
            if added:
                self._not_read |= added
                _log.warning("%s is not read: the end of this stream was fixed before it was there", shown(added))
            return
        self._add(of_known_streams, self._options.new_partitions_start)
        self._add(of_new_streams, self._options.new_streams_start)

    def _add(self, partitions: Collection[LogPartition], start: Earliest | Latest) -> None:
        if not partitions:
            return
        self._positions.update(self._ask(lambda: resolve(self._client, start, partitions, "start")))
        self._changed = self._changed or isinstance(start, Latest)
        _log.info("found new partitions: %s", shown(partitions))

    def _refuse_unreachable_stops(self, ends: Mapping[LogPartition, int]) -> None:
        for partition, stop in (self._stops or {}).items():
            if stop > ends.get(partition, stop):
                raise BadConfigurationError(
                    f"stop: {partition} can be read up to offset {ends[partition]} now, not to {stop}"
                )

    # --- micro-batches ------------------------------------------------------------------------------------------------

    def take_batch(self, limits: ReadLimits) -> list[LogSplit]:
        self._first.wait()
        self._ends = self._ask_ends() if self._fixed_ends is None else self._fixed_ends
        positions = self._positions
        share = self._share(limits.max_records)
        if not share or self._should_wait(share, limits):
            return []
        ids = self._tracked.incarnations
        ranges = [
            LogSplit(p.stream, p.partition, positions[p], end, ids.get(p.stream, ""))
            for p, end in sorted(share.items())
        ]
        positions.update(share)
        self._look_ahead(limits.max_records)
        self._last_batch = time.monotonic()
        return cut(ranges, self._options.min_partitions, self._options.max_records_per_partition)

    def _share(self, max_records: int | None) -> Mapping[LogPartition, int]:
        alignment, positions, ends = self._alignment, self._positions, self._limits()
        if alignment is None:
            return take_share(positions, ends, max_records)
        more = self._more_may_come
        return alignment.choose(positions, ends, max_records, more_may_come=more)

    def _look_ahead(self, max_records: int | None) -> None:
        """While the batch is read, for the next one."""
        alignment = self._alignment
        if alignment is None:
            return
        positions, ends, more = dict(self._positions), self._limits(), self._more_may_come
        self._context.call_async(
            lambda: alignment.look_ahead(positions, ends, max_records, more_may_come=more), _note_failed_look
        )

    @property
    def _more_may_come(self) -> bool:
        """Whether anything can be waited for: what a run or the stream ends with is read, however far apart it is."""
        return self._fixed_ends is None and self._stops is None

    def _limits(self) -> dict[LogPartition, int]:
        return {p: self._limit(p, end) for p, end in self._ends.items()}

    def add_splits_back(self, splits: Sequence[LogSplit]) -> None:
        for split in splits:
            partition = split.log_partition
            self._positions[partition] = min(self._positions.get(partition, split.start), split.start)
        self._changed = True

    def _limit(self, partition: LogPartition, end: int) -> int:
        return end if self._stops is None else min(end, self._stops.get(partition, 0))

    def _reaches(self, ends: Mapping[LogPartition, int], share: Mapping[LogPartition, int]) -> bool:
        """Returns whether nothing is left before ``ends``, once the batch up to ``share`` is taken."""
        positions = {**self._positions, **share}
        return all(positions.get(p, end) >= self._limit(p, end) for p, end in ends.items())

    def _should_wait(self, share: Mapping[LogPartition, int], limits: ReadLimits) -> bool:
        if limits.min_records is None or self._fixed_ends is not None:
            return False
        if sum(end - self._positions[p] for p, end in share.items()) >= limits.min_records:
            return False
        if self._stops is not None and self._reaches(self._stops, share):
            return False
        return (time.monotonic() - self._last_batch) * 1000 < limits.max_trigger_delay_ms

    def _ask_ends(self) -> dict[LogPartition, int]:
        """Returns how far every partition can be read now. A log that ends before the position reached has lost its
        tail.
        """
        for attempt in range(self._options.retries + 1):
            if attempt:
                time.sleep(self._options.retry_interval_ms / 1000)
            unread = self._tracked.unread(self._stops or {})
            # What has reached its stop waits for nothing, and may be gone.
            ends = {p: at for p, at in self._positions.items() if p not in unread}
            ends |= self._client.latest([p for p in self._positions if p in unread])
            cut_off = self._cut_off(ends)
            if not cut_off:
                return ends
        self._tracked.check_incarnations(self._discover(), self._stops or {})
        for partition, end in cut_off.items():
            position = self._positions.get(partition, end)
            if end < position:
                self._losses.report(f"{partition} ends at {end}, before offset {position} that was reached")
                self._positions[partition] = end
        return {partition: end for partition, end in ends.items() if partition in self._positions}

    def _ask(self, question: Callable[[], AnswerT]) -> AnswerT:
        """Asks in a handler, which the engine does not call again."""
        return self._context.retry.call(question, "planning", self._context.metrics)

    def _cut_off(self, ends: Mapping[LogPartition, int]) -> dict[LogPartition, int]:
        behind = [p for p, end in ends.items() if end < self._positions[p]]
        if not behind:
            return {}
        # What is readable may end before what another isolation has read; what is there may not.
        there = self._client.end(behind)
        return {p: end for p, end in there.items() if end < self._positions[p]}

    # --- reporting ----------------------------------------------------------------------------------------------------

    def notify_checkpoint_complete(self, splits: Sequence[LogSplit]) -> None:
        done: dict[LogPartition, int] = {}
        for split in splits:
            done[split.log_partition] = max(split.end, done.get(split.log_partition, 0))
        if self._group_commits is not None and done:
            self._group_commits.add(done)
            if self.is_exhausted():  # the run ends now, and the engine may end this process without a word
                self._group_commits.finish()

    def describe_backlog(self) -> dict[str, int]:
        """``records`` waiting in all, and by partition, as of the last micro-batch."""
        lag = {p: max(0, end - self._positions[p]) for p, end in self._ends.items() if p in self._positions}
        return {"records": sum(lag.values()), **{str(partition): records for partition, records in sorted(lag.items())}}

    def describe_event_time(self) -> dict[str, Any]:
        """Empty if partitions are not aligned."""
        return {} if self._alignment is None else self._alignment.describe()


def _note_failed_look(_: None, error: BaseException | None) -> None:
    if error is not None:
        _log.debug("looking ahead failed, the next batch looks itself: %s", error)
