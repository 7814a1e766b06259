"""Reads splits page by page: the next pages are in flight while one is decoded."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from penstock.errors import RetriableError
from penstock.source import ReaderContext, RecordsBySplits, SplitReader
from penstock_cassandra._tables import check_same_table, table_id
from penstock_cassandra.client import Client, Page, RawRows, Throttle, acquire_client, release_client
from penstock_cassandra.options import SourceOptions
from penstock_cassandra.source._plan import ReadPlan
from penstock_cassandra.source._ring import Partitioner, partitioner_of
from penstock_cassandra.source._split import TokenRange, TokenSplit

__all__ = ["CassandraSplitReader", "scans_of"]

_POLL_S = 0.05
#: Few, as a row may have megabytes; the pages that follow are larger by what the rows before them took.
_FIRST_PAGE_ROWS = 8
_MOST_GROWTH = 8
_MOST_PAGE_ROWS = 100_000


@dataclass
class _Scan:
    """A range of tokens whose pages follow each other: only a page says where the next one begins.

    ``range`` ``None``: all that the query finds. ``future``: the driver's, of the request in flight.
    """

    range: TokenRange | None
    paging_state: bytes | None = None
    future: Any = None


def scans_of(split: TokenSplit, at_once: int) -> Iterator[_Scan]:
    """Yields the ranges of ``split``, each cut into equal pieces if there are fewer than are read at once."""
    if not split.ranges:
        yield _Scan(None)
        return
    pieces = -(-at_once // len(split.ranges))
    for one in split.ranges:
        cuts = [one.after + (one.until - one.after) * number // pieces for number in range(pieces + 1)]
        for after, until in pairwise(cuts):
            if after < until:
                yield _Scan(TokenRange(after, until, one.replicas))


class CassandraSplitReader(SplitReader[RawRows, TokenSplit]):
    """An element is a page as it came. Memory: ``maxInFlight`` pages here, and those that wait for the emitter.

    A node reads one page with one thread, so a task asks for pages of several ranges of a split at once. Rows of one
    partition keep their order; partitions come in any order.

    A page that fails is asked for again where it began, of any node: rows are neither lost nor duplicated. Before the
    first page and after the last one of a split the table's id is compared with the split's: of a table that was
    dropped and created again in between, the server sends the rest of another one's rows.

    :meth:`fetch` and :meth:`close` are called by one thread. The driver's threads only add to ``_answered``.
    """

    def __init__(
        self, options: SourceOptions, make_plan: Callable[[Client, Sequence[str]], ReadPlan], context: ReaderContext
    ) -> None:
        self._options = options
        self._make_plan = make_plan
        self._context = context
        #: The split being read comes first.
        self._pending: deque[TokenSplit] = deque()
        self._woken = threading.Event()
        self._client: Client | None = None
        self._plan: ReadPlan | None = None
        self._partitioner: Partitioner | None = None
        self._page_rows = options.page_rows or _FIRST_PAGE_ROWS
        self._throttle = Throttle(options.max_rows_per_second)
        #: Of the first split: what is not asked for now, what is, and of that what has been answered.
        self._waiting: deque[_Scan] = deque()
        self._in_flight = 0
        self._answered: queue.SimpleQueue[_Scan] = queue.SimpleQueue()

    def handle_splits_changes(self, splits: Sequence[TokenSplit]) -> None:
        self._pending.extend(splits)

    def fetch(self) -> RecordsBySplits[RawRows]:
        """Returns a page that has come, if any; the next one of its range is then requested at once."""
        nothing: RecordsBySplits[RawRows] = RecordsBySplits()
        if self._woken.is_set() or self._woken.wait(min(self._throttle.wait_s(), _POLL_S)):
            return nothing
        if self._throttle.wait_s() > 0:
            return nothing
        self._ask()
        try:
            scan = self._answered.get(timeout=_POLL_S)
        except queue.Empty:
            return nothing
        split = self._pending[0]
        future, scan.future = scan.future, None
        self._in_flight -= 1
        assert self._client is not None
        try:
            page = self._client.page(future, f"reading split {split.split_id}")
        except RetriableError:  # of another table, servers may not understand where this page begins
            self._waiting.appendleft(scan)
            self._look_at_table(self._client, split)
            raise
        self._adapt(page)
        if page.next is not None:
            scan.paging_state = page.next
            self._waiting.appendleft(scan)
        finished = []
        if not self._waiting and not self._in_flight:
            self._look_at_table(self._client, split)
            self._pending.popleft()
            finished = [split.split_id]
        if self._pending:
            self._ask()
        return RecordsBySplits([(split.split_id, page.rows)] if page.rows.count else [], finished)

    def _ask(self) -> None:
        """Requests pages until as many are in flight as may be."""
        split = self._pending[0]
        if self._client is None:
            self._client = self._connect()
            assert self._plan is not None
            self._check_table(split, self._plan.table_id)
        if not self._waiting and not self._in_flight:
            self._waiting.extend(scans_of(split, self._options.max_in_flight))
        while self._waiting and self._in_flight < self._options.max_in_flight:
            self._request(self._client, self._waiting[0])
            self._waiting.popleft()

    def _request(self, client: Client, scan: _Scan) -> None:
        assert self._plan is not None and self._partitioner is not None
        bounds = [] if scan.range is None else [scan.range.after, scan.range.until]
        scan.future = client.execute_async(
            self._plan.statement,
            [self._partitioner.pack(token) for token in bounds],
            page_rows=self._page_rows,
            paging_state=scan.paging_state,
            replicas=scan.range.replicas if scan.range is not None else (),
        )
        self._in_flight += 1
        # Added last: what has been answered already is reported within this call.
        scan.future.add_callbacks(lambda _: self._answered.put(scan), lambda _: self._answered.put(scan))

    def _look_at_table(self, client: Client, split: TokenSplit) -> None:
        assert self._plan is not None
        self._check_table(split, table_id(client, self._plan.select.keyspace, self._plan.select.table))

    def _check_table(self, split: TokenSplit, now: str) -> None:
        assert self._plan is not None
        select = self._plan.select
        then = "what was left of it is gone. Read it again from the beginning, a stream with a new checkpoint location"
        check_same_table(select.keyspace, select.table, split.table_id, now, then)

    def _connect(self) -> Client:
        client = acquire_client(self._options.connection)
        try:
            self._plan = self._make_plan(client, self._context.schema.names)
            self._partitioner = partitioner_of(client.metadata.partitioner)
        except BaseException:
            release_client(client)
            raise
        return client

    def _adapt(self, page: Page) -> None:
        """Pages of as many bytes as were asked for, by what rows of this page took."""
        self._throttle.add(page.rows.count)
        self._context.metrics.add("bytes_read", len(page.rows.body))
        self._context.metrics.add("pages_read")
        if self._options.page_rows is None and page.rows.count:
            row_bytes = max(1, len(page.rows.body) // page.rows.count)
            # Not at once: the first rows may be unlike the others.
            most = min(_MOST_PAGE_ROWS, _MOST_GROWTH * self._page_rows)
            self._page_rows = max(1, min(most, self._options.page_bytes // row_bytes))

    def wake_up(self) -> None:
        self._woken.set()

    def close(self) -> None:
        """Ends the use of the connection, which stays for later tasks of the process."""
        self._pending.clear()
        self._waiting.clear()
        client, self._client = self._client, None
        if client is not None:
            release_client(client)
