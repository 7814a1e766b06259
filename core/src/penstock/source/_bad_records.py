"""Records that can't be decoded: an error, nulls, or left out, as the option ``badRecords`` says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadDataError
from penstock.metrics import Metrics

__all__ = ["BadRecordPolicy"]


@dataclass(frozen=True)
class BadRecordPolicy:
    """What happens to a record that can't be decoded. Each one is counted (metric ``bad_rows``).

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
        if self.choice == "fail":
            row = pc.index(pc.is_valid(reasons), True).as_py()
            more = f", and {bad - 1} more in this batch" if bad > 1 else ""
            raise self._error(f"{place(row)}: {reasons[row].as_py()}{more}")

    def keeps(self, place: str, reason: str) -> bool:
        """Counts one bad record. Returns whether it stays, with nulls. Raises BadDataError for ``fail``."""
        self.metrics.add("bad_rows")
        if self.choice == "fail":
            raise self._error(f"{place}: {reason}")
        return self.choice in ("null", "deadLetter")

    def _error(self, text: str) -> BadDataError:
        return BadDataError(f"{text}; to continue without it, set badRecords to {' or '.join(self.others)}")
