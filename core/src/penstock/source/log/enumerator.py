"""The enumerator of every log source: positions that move on, micro-batch by micro-batch."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from penstock.errors import DataLostError, RetriableError
from penstock.source._contracts import EnumeratorContext, ReadLimits, SplitEnumerator
from penstock.source.log._contracts import LogClient, LogOptions, LogPartition, LogSplit, LogState
from penstock.source.log.discovery import Discovery, discover
from penstock.source.log.limits import cut, take_share
from penstock.source.log.positions import EARLIEST, LATEST, Position
from penstock.source.log.start_stop import resolve

__all__ = ["LogEnumerator"]

_log = logging.getLogger("penstock.source")
_FIRST_DISCOVERY_MS = 120_000

AnswerT = TypeVar("AnswerT")


class LogEnumerator(SplitEnumerator[LogSplit, LogState]):
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
    ) -> None:
        self._context = context
        self._client = client
        self._options = options
        self._bounded = bounded
        self._fresh = checkpoint is None
        state = checkpoint or LogState()
        self._positions = dict(state.positions)
        self._incarnations = dict(state.incarnations)
        self._stops = None if state.stops is None else dict(state.stops)
        self._ends: dict[LogPartition, int] = {}
        self._fixed_ends: dict[LogPartition, int] | None = None
        self._pending: deque[LogSplit] = deque()
        self._missing: set[LogPartition] = set()
        self._discovered = False
        self._failure: BaseException | None = None
        self._changed = False
        self._last_batch = float("-inf")

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """See the contract. A bounded read looks once, in :meth:`prepare_for_available_now`."""
        if not self._bounded:
            interval = self._options.discovery_interval_ms
            self._context.call_async(lambda: discover(self._client), self._on_discovery, interval_ms=interval)

    def close(self) -> None:
        """See the contract."""
        self._client.close()

    def snapshot_state(self) -> LogState:
        """See the contract."""
        self._changed = False
        return LogState(dict(self._positions), dict(self._incarnations), self._stops)

    def wants_checkpoint(self) -> bool:
        """True once positions were found that another run might find elsewhere (the latest, a time without records)."""
        return self._changed

    def prepare_for_available_now(self) -> None:
        """See the contract."""
        self._apply(self._ask(lambda: discover(self._client)))
        self._fixed_ends = self._ask(lambda: dict(self._client.latest(list(self._positions))))

    def is_exhausted(self) -> bool:
        """See the contract."""
        ends = self._stops if self._fixed_ends is None else self._fixed_ends
        return ends is not None and all(self._positions.get(p, end) >= self._limit(p, end) for p, end in ends.items())

    # --- finding partitions -------------------------------------------------------------------------------------------

    def _on_discovery(self, found: Discovery | None, error: BaseException | None) -> None:
        if found is not None:
            self._apply(found)
        elif self._discovered:
            _log.warning("looking for new partitions failed, the next try is in a while: %s", error)
        else:
            self._failure = error

    def _apply(self, found: Discovery) -> None:
        if not self._discovered and self._fresh:
            self._begin(found)
        else:
            self._fix_stops()
            self._check_incarnations(found)
            self._check_missing(found)
            self._check_retention(found)
            self._add_new(found)
        self._discovered = True

    def _begin(self, found: Discovery) -> None:
        """The very first look of a stream or of a bounded read."""
        options, partitions = self._options, list(found.earliest)
        start = options.batch_start if self._bounded else options.start
        self._incarnations = dict(found.incarnations)
        self._positions = self._ask(lambda: resolve(self._client, start, partitions, "start"))
        self._fix_stops()
        self._check_retention(found)
        self._changed = True

    def _fix_stops(self) -> None:
        """Turns the end of a bounded stream or read into positions, once; they are a part of the state."""
        stop = self._options.stop or (LATEST if self._bounded else None)
        if stop is not None and self._stops is None:
            self._stops = self._ask(lambda: resolve(self._client, stop, list(self._positions), "stop"))
            self._changed = True

    def _add_new(self, found: Discovery) -> None:
        if self._stops is not None:
            return  # a bounded stream reads what was there when its end was fixed
        known = {partition.stream for partition in self._positions}
        new = [partition for partition in found.earliest if partition not in self._positions]
        options = self._options
        for of_known, start in ((True, options.new_partitions_start), (False, options.new_streams_start)):
            self._add([p for p in new if (p.stream in known) == of_known], start)
        self._incarnations.update(
            {stream: i for stream, i in found.incarnations.items() if stream not in self._incarnations}
        )

    def _add(self, partitions: Collection[LogPartition], start: Position) -> None:
        if not partitions:
            return
        self._positions.update(self._ask(lambda: resolve(self._client, start, partitions, "start")))
        self._changed = self._changed or start != EARLIEST
        _log.info("found new partitions: %s", _shown(partitions))

    # --- telling loss -------------------------------------------------------------------------------------------------

    def _check_incarnations(self, found: Discovery) -> None:
        for stream, incarnation in found.incarnations.items():
            before = self._incarnations.get(stream, incarnation)
            if before == incarnation:
                continue
            self._lost(
                f"'{stream}' was deleted and made anew (id {before} is now {incarnation}): what it held behind "
                f"{self._position_text(stream)} is gone"
            )
            for partition in [p for p in self._positions if p.stream == stream]:
                del self._positions[partition]
            self._incarnations[stream] = incarnation

    def _check_missing(self, found: Discovery) -> None:
        missing = {partition for partition in self._positions if partition not in found.earliest}
        gone = missing & self._missing
        if gone:
            streams = sorted({partition.stream for partition in gone})
            self._lost(f"{_shown(gone)} can't be found any more: '{streams[0]}' was deleted, or may not be described")
            for partition in gone:
                del self._positions[partition]
        self._missing = missing - gone

    def _check_retention(self, found: Discovery) -> None:
        for partition, earliest in found.earliest.items():
            position = self._positions.get(partition)
            if position is not None and position < earliest:
                self._lost(f"{partition}: offsets {position} to {earliest - 1} were dropped before they were read")
                self._positions[partition] = earliest

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLostError(
                f"{what}. To go on with what is there, set failOnDataLoss=false; to keep this from happening, keep "
                "records longer than the query may be down"
            )
        self._context.metrics.add("data_losses")
        _log.warning("data lost: %s; going on (failOnDataLoss=false)", what)

    def _position_text(self, stream: str) -> str:
        return ", ".join(f"{p} offset {o}" for p, o in sorted(self._positions.items()) if p.stream == stream)

    # --- micro-batches ------------------------------------------------------------------------------------------------

    def handle_split_request(self) -> LogSplit | None:
        """See the contract."""
        if not self._pending:
            self._pending.extend(self.take_batch(ReadLimits()))
        return self._pending.popleft() if self._pending else None

    def take_batch(self, limits: ReadLimits) -> list[LogSplit]:
        """See the contract."""
        self._await_first_discovery()
        ends = self._reachable_ends()
        share = take_share(self._positions, ends, limits.max_records)
        if not share or self._should_wait(sum(share[p] - self._positions[p] for p in share), limits):
            return []
        ranges = [LogSplit(p.stream, p.partition, self._positions[p], share[p]) for p in sorted(share)]
        self._positions.update(share)
        self._last_batch = time.monotonic()
        return cut(ranges, self._options.min_partitions, self._options.max_records_per_partition)

    def add_splits_back(self, splits: Sequence[LogSplit]) -> None:
        """See the contract."""
        for split in splits:
            partition = split.log_partition
            self._positions[partition] = min(self._positions.get(partition, split.start), split.start)

    def _await_first_discovery(self) -> None:
        if not self._discovered:
            self._context.await_handlers(lambda: self._discovered or self._failure is not None, _FIRST_DISCOVERY_MS)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if not self._discovered:
            raise RetriableError(f"no answer about partitions within {_FIRST_DISCOVERY_MS // 1000} s")

    def _reachable_ends(self) -> dict[LogPartition, int]:
        if self._fixed_ends is None:
            self._ends = self._latest_not_behind()
        else:
            self._ends = self._fixed_ends
        return {partition: self._limit(partition, end) for partition, end in self._ends.items()}

    def _limit(self, partition: LogPartition, end: int) -> int:
        return end if self._stops is None else min(end, self._stops.get(partition, 0))

    def _latest_not_behind(self) -> dict[LogPartition, int]:
        """The ends of all partitions. One that stays behind the position reached has lost its tail."""
        for attempt in range(self._options.retries + 1):
            ends = self._ask(lambda: dict(self._client.latest(list(self._positions))))
            behind = [p for p, end in ends.items() if end < self._positions[p]]
            if not behind or self._stops is not None:
                return ends
            if attempt < self._options.retries:
                time.sleep(self._options.retry_interval_ms / 1000)
        self._check_incarnations(self._ask(lambda: discover(self._client)))
        for partition in behind:
            if partition in self._positions:
                self._lost(f"{partition} ends at {ends[partition]}, before offset {self._positions[partition]} reached")
                self._positions[partition] = ends[partition]
        return {partition: end for partition, end in ends.items() if partition in self._positions}

    def _should_wait(self, records: int, limits: ReadLimits) -> bool:
        if limits.min_records is None or self._fixed_ends is not None or records >= limits.min_records:
            return False
        return (time.monotonic() - self._last_batch) * 1000 < limits.max_trigger_delay_ms

    def _ask(self, question: Callable[[], AnswerT]) -> AnswerT:
        """Asks the system on the trigger's path, again if it does not answer."""
        for _ in range(self._options.retries):
            try:
                return question()
            except RetriableError as error:
                _log.warning("asking again in %d ms: %s", self._options.retry_interval_ms, error)
                time.sleep(self._options.retry_interval_ms / 1000)
        return question()

    # --- reporting ----------------------------------------------------------------------------------------------------

    def notify_checkpoint_complete(self, splits: Sequence[LogSplit]) -> None:
        """See the contract."""
        if not self._options.commit_group or not splits:
            return
        done: dict[LogPartition, int] = {}
        for split in splits:
            done[split.log_partition] = max(split.end, done.get(split.log_partition, 0))
        self._context.call_async(lambda: self._client.commit(done), _on_commit)

    def describe_backlog(self) -> dict[str, int]:
        """``records`` waiting in all, and by partition, as of the last micro-batch."""
        lag = {p: max(0, end - self._positions[p]) for p, end in self._ends.items() if p in self._positions}
        return {"records": sum(lag.values()), **{str(partition): records for partition, records in sorted(lag.items())}}


def _on_commit(_: None, error: BaseException | None) -> None:
    if error is not None:
        _log.warning("the consumer group's offsets could not be committed (the checkpoint is what counts): %s", error)


def _shown(partitions: Iterable[LogPartition], most: int = 5) -> str:
    listed = sorted(partitions)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(str(partition) for partition in listed[:most]) + more
