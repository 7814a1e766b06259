"""Records that can't be decoded: an error, nulls, or left out, as the option ``badRecords`` says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadDataError
from penstock.metrics import Metrics
from penstock.printable import get_logger
from penstock.system import system

__all__ = ["BadRecordPolicy"]

_log = get_logger("penstock.source")
#: Between two lines of a process's log about bad records that don't end a query.
_SAY_EVERY_S = 10.0


class _Notices:
    """Logs some of the bad records that don't end a query, and counts the others. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: float | None = None
        self._unsaid = 0

    def add(self, records: int, text: Callable[[], str]) -> None:
        """Adds ``records``, the first of which ``text`` describes."""
        with self._lock:
            now = system().monotonic()
            if self._said is not None and 0 <= now - self._said < _SAY_EVERY_S:
                self._unsaid += records
                return
            others, self._said, self._unsaid = self._unsaid + records - 1, now, 0
        more = f"; bad records since the last such line: {others + 1:,}" if others else ""
        _log.warning("%s%s", text(), more)


_notices = _Notices()


@dataclass(frozen=True)
class BadRecordPolicy:
    """What happens to a record that can't be decoded. Each one is counted (metric ``bad_rows``), and one is logged, at
    most every ten seconds in a process, unless it becomes a dead letter.

    ``choice`` is what ``badRecords`` says: ``fail``, or one of the ``others`` that the connector has.
    """

    choice: str
    others: tuple[str, ...]
    metrics: Metrics

    def check(self, reasons: pa.Array | None, place: Callable[[int], str]) -> None:
        """Counts the bad records of a batch.

        ``reasons`` has a text for each bad record, and null for a good one; ``None``: all are good. ``place`` returns
        where the record of a row is. Raises BadDataError about the first bad one if the choice is ``fail``.
        """
        if reasons is None or reasons.null_count == len(reasons):
            return
        bad = len(reasons) - reasons.null_count
        self.metrics.add("bad_rows", bad)
        row = pc.index(pc.is_valid(reasons), True).as_py()
        if self.choice == "fail":
            more = f", and {bad - 1} more in this batch" if bad > 1 else ""
            raise self._error(f"{place(row)}: {reasons[row].as_py()}{more}")
        self._notice(bad, lambda: f"{place(row)}: {reasons[row].as_py()}")

    def keeps(self, place: str, reason: str) -> bool:
        """Counts one bad record. Returns whether it stays, with nulls. Raises BadDataError for ``fail``."""
        self.metrics.add("bad_rows")
        if self.choice == "fail":
            raise self._error(f"{place}: {reason}")
        self._notice(1, lambda: f"{place}: {reason}")
        return self.choice in ("null", "deadLetter")

    def _notice(self, records: int, text: Callable[[], str]) -> None:
        if self.choice != "deadLetter":
            becomes = "it becomes null" if self.choice == "null" else "it is left out"
            _notices.add(records, lambda: f"{text()}; {becomes} (badRecords={self.choice})")

    def _error(self, text: str) -> BadDataError:
        return BadDataError(f"{text}; to continue without it, set badRecords to {' or '.join(self.others)}")
