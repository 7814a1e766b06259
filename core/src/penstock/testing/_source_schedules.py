"""Random schedules for a source: a query is killed, replayed, planned again and informed late, in any order.

What Spark keeps is the offset log and its note of the batches that are done; everything else is gone with a driver. A
driver that was thought dead may run for a while.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from penstock.spark import StreamReader
from penstock.testing._source_engine import SourceQuery

__all__ = ["SourceSchedule"]


class SourceSchedule:
    """One query, and what happens to it. ``put`` makes rows with given ids, ``ids_of`` tells those of rows.

    ``trace`` says what has happened. ``counted`` are the rows of the batches that the engine has noted as done.
    """

    def __init__(
        self,
        query: SourceQuery,
        put: Callable[[range], object] | None,
        ids_of: Callable[[Iterable[Any]], Counter[int]],
        seed: int,
    ) -> None:
        self.trace = [f"seed {seed}"]
        self.counted: Counter[int] = Counter()
        self.made = 0
        self._query = query
        self._put = put
        self._ids_of = ids_of
        self._chance = random.Random(seed)
        self._read: Counter[int] | None = None
        self._zombies: list[StreamReader] = []

    def run(self, steps: int) -> None:
        """Runs that number of steps. Raises AssertionError when a batch that is run again has other rows."""
        for _ in range(steps):
            name, step = self._chance.choice(self._possible())
            self.trace.append(name)
            step()

    def close(self) -> None:
        """Ends the drivers that were thought dead."""
        while self._zombies:
            with contextlib.suppress(Exception):
                self._zombies.pop().stop()

    def _possible(self) -> list[tuple[str, Callable[[], None]]]:
        query = self._query
        steps: list[tuple[str, Callable[[], None]]] = [
            ("the driver is killed and started again", self._restart),
            ("a second driver is started, and continues", self._displace),
        ]
        if self._put is not None:
            steps += [("rows come", self._more)] * 2
        if self._zombies and query.done:
            steps.append(("a driver that was thought dead tells of an old batch", self._told_late))
        if query.done == len(query.offsets):
            return [*steps, *[("a batch is planned", self._plan)] * 3]
        steps += [("a batch is read", self._read_it), ("a task of it is killed", self._leave_a_task)]
        if self._read is None:
            steps += [("the driver is killed before it has noted the plan", self._lose_the_plan)] * 2
        else:
            steps += [("it is done", self._commit)] * 2
            steps.append(("it is done, and the driver is killed before it tells of it", self._commit_untold))
        return steps

    def _more(self) -> None:
        assert self._put is not None
        count = self._chance.randrange(1, 6)
        self._put(range(self.made, self.made + count))
        self.made += count

    def _plan(self) -> None:
        if self._query.plan() is None:
            self._query.wait(0.02)

    def _lose_the_plan(self) -> None:
        self._query.offsets.pop()
        self._restart()

    def _read_it(self) -> None:
        rows = self._ids_of(self._query.read(self._query.done))
        assert self._read in (None, rows), f"a batch that is read again has other rows: {self._read}, then {rows}"
        self._read = rows

    def _leave_a_task(self) -> None:
        splits = self._chance.choice(self._query.tasks(self._query.done) or [[]])
        rows = self._query.read_task(splits)
        next(rows, None)
        rows.close()  # type: ignore[attr-defined]

    def _commit(self) -> None:
        self._count()
        self._query.commit(self._query.done)

    def _commit_untold(self) -> None:
        self._count()
        self._query.done += 1
        self._restart()

    def _count(self) -> None:
        assert self._read is not None
        self.counted += self._read
        self._read = None

    def _restart(self) -> None:
        self._query.restart(parallelism=self._chance.choice([1, 2, 4]))

    def _displace(self) -> None:
        self._zombies.append(self._query.release())
        self._query.restart()

    def _told_late(self) -> None:
        # It may find that others have gone on; only what it breaks for them counts.
        with contextlib.suppress(Exception):
            self._query.tell(self._chance.choice(self._zombies), self._chance.randrange(self._query.done))
