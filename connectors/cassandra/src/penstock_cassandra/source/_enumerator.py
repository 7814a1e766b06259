"""Hands out pieces of the token ring, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.printable import get_logger
from penstock.source import EnumeratorContext, SplitEnumerator
from penstock.source.log import FirstAnswer
from penstock_cassandra._tables import check_same_table
from penstock_cassandra.client import Client, shared_client
from penstock_cassandra.options import SourceOptions
from penstock_cassandra.source._estimates import SPLITS_PER_SLOT, describe_scan, estimated_bytes, split_count
from penstock_cassandra.source._plan import ReadPlan
from penstock_cassandra.source._ring import Ring, partitioner_of
from penstock_cassandra.source._split import TableState, TokenRange, TokenSplit

__all__ = ["CassandraSplitEnumerator"]

_log = get_logger("penstock.cassandra")


class CassandraSplitEnumerator(SplitEnumerator[TokenSplit, TableState]):
    """The size is estimated once in the life of a stream; from then on it only counts, so the state has one size.

    Splits are of equal share of the ring, not of equal size: partitions that are much larger than others make some
    larger. What comes in while the table is read may be read or not, as with any scan.
    """

    def __init__(
        self,
        options: SourceOptions,
        make_plan: Callable[[Client], ReadPlan],
        context: EnumeratorContext,
        checkpoint: TableState | None,
    ) -> None:
        self._options = options
        self._make_plan = make_plan
        self._context = context
        self._state = checkpoint
        self._ring: Ring | None = None
        self._first = FirstAnswer(context, "the table", self.start)

    def start(self) -> None:
        """Looks at the cluster in the background."""
        self._context.call_async(self._discover, self._on_discovered)

    def _discover(self) -> tuple[Ring, TableState]:
        client = shared_client(self._options.connection)
        plan = self._make_plan(client)
        keyspace, table = plan.select.keyspace, plan.select.table
        ring = Ring(client.metadata, keyspace)
        if self._state is not None:
            then = "this stream had begun to read the first one. Start with a new checkpoint location"
            check_same_table(keyspace, table, self._state.table_id, plan.table_id, then)
            return ring, self._state
        partitioner = partitioner_of(client.metadata.partitioner)
        if not plan.by_token:
            return ring, TableState(0, 1, 0, partitioner.name, by_token=False, table_id=plan.table_id)
        estimate = estimated_bytes(client, keyspace, table, partitioner)
        count = split_count(self._options, estimate) or SPLITS_PER_SLOT * self._context.parallelism
        _log.warning("penstock.cassandra: %s", describe_scan(plan, estimate, count))
        return ring, TableState(0, count, (estimate or 0) // count, partitioner.name, table_id=plan.table_id)

    def _on_discovered(self, found: tuple[Ring, TableState] | None, error: BaseException | None) -> None:
        if found is None:
            self._first.failed(error)
        else:
            self._ring, self._state = found
            self._first.arrived()

    def _discovered(self) -> tuple[Ring, TableState]:
        self._first.wait()
        assert self._ring is not None and self._state is not None
        return self._ring, self._state

    def handle_split_request(self) -> TokenSplit | None:
        """Returns the next piece."""
        ring, state = self._discovered()
        if state.next >= state.count:
            return None
        self._state = TableState(**{**vars(state), "next": state.next + 1})
        if not state.by_token:
            return TokenSplit(state.next, (), state.split_bytes, state.table_id)
        partitioner = partitioner_of(state.partitioner)
        after = partitioner.cut(state.next, state.count)
        until = partitioner.cut(state.next + 1, state.count)
        ranges: tuple[TokenRange, ...] = ring.pieces(after, until)
        return TokenSplit(state.next, ranges, state.split_bytes, state.table_id)

    def add_splits_back(self, splits: Sequence[TokenSplit]) -> None:
        """They are the last ones that were handed out: counting goes back, so that the state holds them."""
        if splits and self._state is not None:
            first = min(split.number for split in splits)
            self._state = TableState(**{**vars(self._state), "next": min(self._state.next, first)})

    def snapshot_state(self) -> TableState:
        return self._discovered()[1]

    def is_exhausted(self) -> bool:
        """All were handed out."""
        return self._state is not None and self._state.next >= self._state.count

    def has_ended(self) -> bool:
        """A table is read once."""
        return self.is_exhausted()

    def describe_backlog(self) -> dict[str, int]:
        """Splits that wait, and their bytes by the estimate."""
        if self._state is None:
            return {}
        left = self._state.count - self._state.next
        return {"splits": left, "bytes": left * self._state.split_bytes}
