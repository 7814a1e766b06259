"""Reads splits page by page; the next page is in flight while one is decoded."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from penstock.errors import RetriableError
from penstock.source import ReaderContext, RecordsBySplits, SplitReader
from penstock_cassandra._tables import check_same_table, table_id
from penstock_cassandra.client import Client, Page, RawRows, Throttle, acquire_client, release_client
from penstock_cassandra.options import SourceOptions
from penstock_cassandra.source._plan import ReadPlan
from penstock_cassandra.source._ring import Partitioner, partitioner_of
from penstock_cassandra.source._split import TokenRange, TokenSplit

__all__ = ["CassandraSplitReader"]

_POLL_S = 0.05
#: Few, as a row may have megabytes; the pages that follow are larger by what the rows before them took.
_FIRST_PAGE_ROWS = 8
_MOST_GROWTH = 8
_MOST_PAGE_ROWS = 100_000


class CassandraSplitReader(SplitReader[RawRows, TokenSplit]):
    """An element is a page as it came. Memory: two pages here, and those that wait for the emitter.

    A page that fails is asked for again where it began, of any node: rows are neither lost nor duplicated. Before the
    first page and after the last one of a split the table's id is compared with the split's: of a table that was
    dropped and created again in between, the server sends the rest of another one's rows.
    """

    def __init__(
        self, options: SourceOptions, make_plan: Callable[[Client, Sequence[str]], ReadPlan], context: ReaderContext
    ) -> None:
        self._options = options
        self._make_plan = make_plan
        self._context = context
        self._pending: deque[tuple[TokenSplit, TokenRange | None, bool]] = deque()
        self._woken = threading.Event()
        self._client: Client | None = None
        self._plan: ReadPlan | None = None
        self._partitioner: Partitioner | None = None
        self._page_rows = options.page_rows or _FIRST_PAGE_ROWS
        self._throttle = Throttle(options.max_rows_per_second)
        #: The request in flight: where its page begins, the driver's future, and what is set at its end.
        self._paging_state: bytes | None = None
        self._future: Any = None
        self._answered = threading.Event()

    def handle_splits_changes(self, splits: Sequence[TokenSplit]) -> None:
        for split in splits:
            ranges: Sequence[TokenRange | None] = split.ranges or (None,)
            self._pending.extend((split, one, number == len(ranges)) for number, one in enumerate(ranges, 1))

    def fetch(self) -> RecordsBySplits[RawRows]:
        """Returns the page in flight, if it has come; the next one is then requested at once."""
        nothing: RecordsBySplits[RawRows] = RecordsBySplits()
        if self._woken.is_set() or self._woken.wait(min(self._throttle.wait_s(), _POLL_S)):
            return nothing
        if self._throttle.wait_s() > 0:
            return nothing
        if self._future is None:
            self._ask()
        if not self._answered.wait(_POLL_S):
            return nothing
        split, _, is_last = self._pending[0]
        future, self._future = self._future, None
        assert self._client is not None
        try:
            page = self._client.page(future, f"reading split {split.split_id}")
        except RetriableError:  # of another table, servers may not understand where this page begins
            self._look_at_table(self._client, split)
            raise
        if page.next is None and is_last:
            self._look_at_table(self._client, split)
        self._paging_state = page.next
        self._adapt(page)
        finished = []
        if page.next is None:
            self._pending.popleft()
            finished = [split.split_id] if is_last else []
        if self._pending:
            self._ask()
        return RecordsBySplits([(split.split_id, page.rows)] if page.rows.count else [], finished)

    def _ask(self) -> None:
        split, one, _ = self._pending[0]
        if self._client is None:
            self._client = self._connect()
            assert self._plan is not None
            self._check_table(split, self._plan.table_id)
        assert self._plan is not None and self._partitioner is not None
        values = [] if one is None else [self._partitioner.pack(one.after), self._partitioner.pack(one.until)]
        self._answered = answered = threading.Event()
        future = self._client.execute_async(
            self._plan.statement,
            values,
            page_rows=self._page_rows,
            paging_state=self._paging_state,
            replicas=one.replicas if one is not None else (),
        )
        future.add_callbacks(lambda _: answered.set(), lambda _: answered.set())
        self._future = future

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
        client, self._client = self._client, None
        if client is not None:
            release_client(client)
