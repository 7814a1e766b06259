"""Sources with one flaw each, that the kit must catch: a test of the kit itself, and what the flaws look like.

Each is ``LinesSource`` of ``_samples/source`` with one mistake. ``SOURCE_FLAWS`` names them, with the
case that catches each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from penstock.options import OptionValues
from penstock.serialization import JsonSerializer
from penstock.source import (
    EnumeratorContext,
    ReaderContext,
    ReadLimits,
    RecordEmitter,
    RecordsBySplits,
    SplitReader,
)
from penstock.testing._samples.source import LinesConnector
from penstock.testing._samples.source._options import SourceOptions
from penstock.testing._samples.source.source._emitter import LinesRecordEmitter
from penstock.testing._samples.source.source._enumerator import LinesSplitEnumerator
from penstock.testing._samples.source.source._reader import LinesSplitReader
from penstock.testing._samples.source.source._source import LinesSource
from penstock.testing._samples.source.source._split import LinesSplit

__all__ = ["SOURCE_FLAWS", "SourceFlaw", "hostile_source_connector"]


@dataclass(frozen=True)
class SourceFlaw:
    """``caught_by`` is the case whose failure is expected; other cases may fail as well."""

    caught_by: str
    make_source: Callable[[SourceOptions], LinesSource]


@dataclass(frozen=True)
class _Hostile(LinesSource):
    """With another enumerator, or another reader. A class of the module, or it could not be pickled either."""

    enumerator: type[LinesSplitEnumerator] = LinesSplitEnumerator
    reader: type[LinesSplitReader] = LinesSplitReader

    def create_enumerator(self, context: EnumeratorContext, checkpoint: int | None) -> LinesSplitEnumerator:
        return self.enumerator(self.options.path, checkpoint or 0)

    def create_reader(self, context: ReaderContext) -> SplitReader[bytes, LinesSplit]:
        return self.reader(self.options.path)


def _with_enumerator(kind: type[LinesSplitEnumerator]) -> Callable[[SourceOptions], LinesSource]:
    return partial(_Hostile, enumerator=kind)


def _with_reader(kind: type[LinesSplitReader]) -> Callable[[SourceOptions], LinesSource]:
    return partial(_Hostile, reader=kind)


class _GoesBack(LinesSplitEnumerator):
    """The state lies one split behind what was handed out."""

    def snapshot_state(self) -> int:
        return max(0, super().snapshot_state() - 2)


class _NeverStandsStill(LinesSplitEnumerator):
    """The state changes while nothing is handed out, and so the offset."""

    def wants_checkpoint(self) -> bool:
        return True


class _KeepsItsState(LinesSplitEnumerator):
    """The position is kept in the process: a restart begins again."""

    def snapshot_state(self) -> int:
        return 0


class _CountsWhatItHandsOut(LinesSplitEnumerator):
    """What was handed out is noted next to the state, as if it were read."""

    noted: ClassVar[dict[str, int]] = {}

    def __init__(self, path: str, position: int) -> None:
        super().__init__(path, max(position, self.noted.get(path, 0)))

    def handle_split_request(self) -> LinesSplit | None:
        split = super().handle_split_request()
        self.noted[self._path] = self._position
        return split


class _HasNoEnd(LinesSplitEnumerator):
    """Available-now continues with what is found later."""

    def prepare_for_available_now(self) -> None:
        pass


class _FindsNothingLater(LinesSplitEnumerator):
    """Looks once, when it is made."""

    def __init__(self, path: str, position: int) -> None:
        super().__init__(path, position)
        self._stop = self._end()


class _ReadsToTheEnd(LinesSplitReader):
    """Reads what the file has now, and not what the split says."""

    def fetch(self) -> RecordsBySplits[bytes]:
        split = self._splits.pop(0)
        with open(self._path, "rb") as file:
            file.seek(split.start)
            return RecordsBySplits([(split.split_id, file.read())], [split.split_id])


class _ReadsOneSplit(LinesSplitReader):
    """Finishes the other splits of its task without reading them."""

    def fetch(self) -> RecordsBySplits[bytes]:
        fetched = super().fetch()
        fetched.finished_splits += [split.split_id for split in self._splits]
        self._splits.clear()
        return fetched


#: Ends the waiting of the reader that can't be woken: for the test that is done with it.
_RELEASED = threading.Event()


class _CanNotBeWoken(LinesSplitReader):
    """Waits for something between two fetches, and does not listen."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._begun = False

    def fetch(self) -> RecordsBySplits[bytes]:
        if self._begun:
            _RELEASED.wait(60)
        self._begun = True
        return super().fetch()


class _CountsTwice(LinesSource):
    """Counts the rows that the loop inside the task counts already."""

    def create_emitter(self, context: ReaderContext) -> RecordEmitter[bytes, LinesSplit]:
        class Emitter(LinesRecordEmitter):
            def emit_record(self, element: bytes, split_state: Any) -> Iterator[pa.RecordBatch]:
                for batch in super().emit_record(element, split_state):
                    context.metrics.add("rows_read", batch.num_rows)
                    yield batch

        return Emitter()


class _HasNoLimit(LinesSource):
    """The option of the limit is read and forgotten."""

    def read_limits(self) -> ReadLimits:
        return ReadLimits()


class _StoresHalf(LinesSource):
    """The stored split forgets its end."""

    split_serializer = JsonSerializer(1, lambda s: s.start, lambda version, start: LinesSplit(start, start + 64))


@dataclass(frozen=True)
class _HoldsALock(LinesSource):
    """Holds something open, which can't be sent to a task."""

    lock: Any = field(default_factory=threading.Lock)


class _SharesSplits(LinesSplitReader):
    """The list of splits belongs to the class, so that a task that was left hands its splits to the next one."""

    shared: ClassVar[list[LinesSplit]] = []

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._woken = threading.Event()

    def handle_splits_changes(self, splits: Sequence[LinesSplit]) -> None:
        self.shared.extend(splits)
        self._splits = self.shared

    def fetch(self) -> RecordsBySplits[bytes]:
        # Slow enough that a task which is left after its first batch leaves splits behind.
        return RecordsBySplits([], []) if self._woken.wait(0.5) else super().fetch()

    def wake_up(self) -> None:
        self._woken.set()


class _OutageIsTheEnd(LinesSplitReader):
    """What can't be opened has no rows."""

    def fetch(self) -> RecordsBySplits[bytes]:
        split = self._splits[0]
        try:
            return super().fetch()
        except OSError:
            return RecordsBySplits([], [split.split_id])


#: What is wrong with each source -> the case that must fail, and the source.
SOURCE_FLAWS: dict[str, SourceFlaw] = {
    "offsets that go back": SourceFlaw("test_a_restart_at_every_step", _with_enumerator(_GoesBack)),
    "never stands still": SourceFlaw("test_an_idle_stream_stands_still", _with_enumerator(_NeverStandsStill)),
    "keeps its state in the process": SourceFlaw("test_a_restart_at_every_step", _with_enumerator(_KeepsItsState)),
    "takes a plan for a fact": SourceFlaw("test_schedules_by_chance", _with_enumerator(_CountsWhatItHandsOut)),
    "available now has no end": SourceFlaw(
        "test_available_now_reads_what_is_there_and_ends", _with_enumerator(_HasNoEnd)
    ),
    "finds nothing later": SourceFlaw("test_rows_that_come_later_are_found", _with_enumerator(_FindsNothingLater)),
    "reads past its split": SourceFlaw("test_a_replayed_batch_has_the_same_rows", _with_reader(_ReadsToTheEnd)),
    "reads one split of several": SourceFlaw("test_a_batch_reads_everything_once", _with_reader(_ReadsOneSplit)),
    "can't be woken": SourceFlaw("test_a_task_that_is_killed_leaves_nothing_running", _with_reader(_CanNotBeWoken)),
    "shares its splits": SourceFlaw("test_a_task_that_is_killed_leaves_nothing_running", _with_reader(_SharesSplits)),
    "takes an outage for the end": SourceFlaw("test_the_system_is_away_for_a_while", _with_reader(_OutageIsTheEnd)),
    "counts twice": SourceFlaw("test_metrics_count_rows", _CountsTwice),
    "has no limit": SourceFlaw("test_the_read_limit_bounds_every_batch", _HasNoLimit),
    "stores half of a split": SourceFlaw("test_a_stream_reads_everything_once", _StoresHalf),
    "can't be pickled": SourceFlaw("test_it_can_be_pickled", _HoldsALock),
}


def hostile_source_connector(flaw: str) -> type[LinesConnector]:
    """Returns a connector whose source has the flaw of that name."""

    class Hostile(LinesConnector):
        def create_source(self, options: OptionValues) -> LinesSource:
            return SOURCE_FLAWS[flaw].make_source(SourceOptions.from_values(options))

    return Hostile
