"""What the cases of a source share that run on the contracts alone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pytest

from penstock.connector import Capability
from penstock.testing._differences import difference
from penstock.testing._origin import SourceOrigin
from penstock.testing._source_cases import SourceCases
from penstock.testing._source_engine import SourceQuery

__all__ = ["LOOK_AGAIN_S", "LOOKS", "PATIENCE_S", "SourceBase"]

#: Rows that have not come count as lost after so long, and so many looks, without any that has: on a busy machine a
#: look takes longer.
PATIENCE_S, LOOKS = 8.0, 40
#: Between two looks, for a source that finds rows only when it is asked.
LOOK_AGAIN_S = 0.05
#: Batches without a row, one after the other.
_MOST_EMPTY = 50


class Patience:
    """Ends when nothing has happened for :data:`PATIENCE_S` and in :data:`LOOKS` looks."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Something has happened."""
        self._since, self._looks = time.monotonic(), 0

    def is_over(self) -> bool:
        """Counts a look."""
        self._looks += 1
        return self._looks > LOOKS and time.monotonic() - self._since > PATIENCE_S


class SourceBase(SourceCases):
    """A query, and how its rows are compared. ``limit``: the option that bounds a micro-batch, with a value, and how
    many rows that lets through at most. ``numbers_are_positions``: splits are ranges of the numbers, so that a gap
    costs splits.
    """

    limit: ClassVar[tuple[str, str, int] | None] = None
    numbers_are_positions: ClassVar[bool] = False

    @pytest.fixture
    def query(self, origin: SourceOrigin) -> Iterable[SourceQuery]:
        """Yields a query that reads from ``origin``: a bounded source in steps, if it has a limit."""
        query = self._new_query(origin)
        yield query
        query.stop()

    def _new_query(self, origin: SourceOrigin, **more: str) -> SourceQuery:
        in_steps = {self.limit[0]: self.limit[1]} if self.limit and self._is_bounded else {}
        return SourceQuery(self._source(origin, **in_steps, **more), self.schema)

    @property
    def _is_bounded(self) -> bool:
        return Capability.BOUNDED in self.connector.capabilities

    def _put(self, origin: SourceOrigin, first: int, count: int, total: int) -> None:
        """``count`` more rows of ``total``; all of them at once where a stream does not see what comes later."""
        if not self._is_bounded:
            origin.put(range(first, first + count))
        elif first == 0:
            origin.put(range(total))

    def _ids(self, rows: Iterable[Mapping[str, Any]] | None) -> Counter[int]:
        return Counter(self.id_of(row) for row in rows or ())

    def _check(self, seen: Counter[int], wanted: Counter[int], when: str = "") -> None:
        """Raises AssertionError that says which rows are lost, duplicated, or were never there."""
        if problem := difference(seen, wanted):
            raise AssertionError(f"{problem}{when and ' '}{when}")

    def _read_rest(self, query: SourceQuery, wanted: Counter[int], seen: Counter[int] | None = None) -> None:
        """Runs batches until every row that is wanted was ``seen``, and then until nothing more comes.

        Raises AssertionError for a row that is duplicated or never was there, at once; and for lost ones.
        """
        seen = Counter(seen or ())
        patience, empty = Patience(), 0
        while True:
            rows = query.run_batch()
            seen += self._ids(rows)
            if rows:
                patience.renew()
                self._check(seen | wanted, wanted)
            if rows is None:
                if not wanted - seen or patience.is_over():
                    break
                query.wait(LOOK_AGAIN_S)
            empty = 0 if rows else empty + (rows is not None)
            assert empty < _MOST_EMPTY, f"there were {empty} batches without a row, one after the other"
        self._check(seen, wanted)

    def _run_to_end(self, query: SourceQuery, most: int) -> Counter[int]:
        """Runs batches until there is none. Returns the rows. Raises AssertionError if there are more than ``most``, or
        if batches do not end.
        """
        seen: Counter[int] = Counter()
        empty = 0
        while (rows := query.run_batch()) is not None:
            seen += self._ids(rows)
            empty = 0 if rows else empty + 1
            assert seen.total() <= most, f"{seen.total()} rows came of {most}: the run does not end where it should"
            assert empty < _MOST_EMPTY, f"the run does not end: there were {empty} batches without a row"
        return seen

    def _plan(self, query: SourceQuery) -> int:
        patience = Patience()
        while (batch := query.plan()) is None:
            assert not patience.is_over(), "lost: there are rows, and no batch is planned"
            query.wait(LOOK_AGAIN_S)
        return batch
