"""Rows as the bytes of statements, a column at a time, and put together in requests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadDataError
from penstock.sink import ChangeColumns, check_not_null, rows_refused_by
from penstock_cassandra.native import tokens_of
from penstock_cassandra.options import SinkOptions
from penstock_cassandra.sink._plan import Binding, BoundStatement, WritePlan
from penstock_cassandra.types import NULL, UNSET, encode, key_cells, prefixed

__all__ = ["Encoded", "Grouping", "Request", "encode_rows", "find_bad_rows", "requests"]

_EMPTY = pa.scalar(b"", pa.binary())
_UNSET = pa.scalar(UNSET.to_bytes(4, "big", signed=True), pa.binary())
#: The protocol counts a batch's statements in 16 bits.
_MOST_ROWS = 30_000
ENCODING_ERRORS = (BadDataError, pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, TypeError)


@dataclass(frozen=True)
class Request:
    """Statements of rows ``first`` to below ``last`` of ``rows``, whose bytes they are."""

    encoded: Encoded
    first: int
    last: int
    timestamp_us: int | None

    @property
    def count(self) -> int:
        """How many rows."""
        return self.last - self.first

    @property
    def body(self) -> bytes:
        """The statements, one after the other."""
        offsets = self.encoded.offsets
        return bytes(self.encoded.data[offsets[self.first] : offsets[self.last]])

    @property
    def routing_key(self) -> bytes | None:
        """Of the first row."""
        keys = self.encoded.keys
        return None if keys is None else keys[self.first].as_py()

    def halves(self) -> tuple[Request, Request]:
        """Two requests with half of the rows each."""
        middle = (self.first + self.last) // 2
        return (
            Request(self.encoded, self.first, middle, self.timestamp_us),
            Request(self.encoded, middle, self.last, self.timestamp_us),
        )


@dataclass(frozen=True)
class Encoded:
    """Rows in the order in which they are sent; ``order`` is where each was in ``batch``."""

    batch: pa.RecordBatch
    order: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int32]
    data: memoryview
    keys: pa.BinaryArray | None
    groups: npt.NDArray[np.int64]


class Grouping:
    """Which rows may share a request: a number for each, by its token."""

    def __init__(self, kind: str, ring_ends: Sequence[int], replica_sets: Sequence[int]) -> None:
        self._kind = kind
        self._ends = np.array(ring_ends, np.int64)
        self._sets = np.array(replica_sets, np.int64)

    def of(self, keys: pa.BinaryArray | None, rows: int) -> npt.NDArray[np.int64]:
        """Returns the group of each row."""
        if self._kind == "none":
            return np.arange(rows)
        if self._kind == "partition":
            # Where it is unknown, each row is alone.
            return np.arange(rows) if keys is None else keys.dictionary_encode().indices.to_numpy().astype(np.int64)
        if keys is None or not len(self._ends) or len(set(self._sets.tolist())) < 2:
            return np.zeros(rows, np.int64)
        found: npt.NDArray[np.int64] = self._sets[np.searchsorted(self._ends, tokens_of(keys)) % len(self._sets)]
        return found


def _cells(batch: pa.RecordBatch, prepared: BoundStatement, changes: ChangeColumns, stamps: str) -> pa.BinaryArray:
    """``changes`` says which values are missing, ``stamps`` is the column of write timestamps."""
    identifier = prepared.statement.id
    head = b"\x01" + len(identifier).to_bytes(2, "big") + identifier + len(prepared.bindings).to_bytes(2, "big")
    missing = changes.unavailable_in(batch)
    cells = [_cell(batch, one, stamps) for one in prepared.bindings]
    for at, binding in enumerate(prepared.bindings):
        if binding.column in missing and not binding.is_key:
            cells[at] = pc.if_else(missing[binding.column], _UNSET, cells[at])
    heads = pa.array([head], pa.binary()).take(pa.array(np.zeros(batch.num_rows, np.int64)))
    return pc.binary_join_element_wise(heads, *cells, _EMPTY)


def _cell(batch: pa.RecordBatch, binding: Binding, timestamp_column: str) -> pa.BinaryArray:
    column = batch.column(binding.column)
    if binding.column == timestamp_column and pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    try:
        cells = key_cells(column, binding.cql) if binding.is_key else encode(column, binding.cql)
        return prefixed(cells, UNSET if binding.unset_nulls else NULL)
    except ENCODING_ERRORS as error:
        raise BadDataError(f"column '{binding.column}' can't be written as {binding.cql}: {error}") from error


def encode_rows(batch: pa.RecordBatch, plan: WritePlan, grouping: Grouping, options: SinkOptions) -> Encoded:
    """Returns the statements of each row, groups kept together. Raises BadDataError that names the column."""
    rows = batch.num_rows
    stamps, changes = options.timestamp_column, replace(options.changes, keys=plan.key)
    if changes.order:
        check_not_null(batch, (changes.order,), "order column")
    if plan.deletes is None:
        statements = _cells(batch, plan.writes, changes, stamps)
    else:
        gone = changes.deletes(batch)
        if gone is None:
            gone = pc.fill_null(batch.column(options.delete_column), False)
        kept = pc.invert(gone)
        both = [
            _cells(batch.filter(kept), plan.writes, changes, stamps),
            _cells(batch.filter(gone), plan.deletes, changes, stamps),
        ]
        mask = gone.to_numpy(zero_copy_only=False)
        at = np.where(mask, np.cumsum(mask) - 1 + len(both[0]), np.cumsum(~mask) - 1)
        statements = pa.concat_arrays(both).take(pa.array(at))
    _check_sizes(statements, options.max_row_bytes)
    keys = _routing_keys(batch, plan)
    groups = grouping.of(keys, rows)
    order = np.argsort(groups, kind="stable")
    if bool((order[1:] < order[:-1]).any()):
        statements = statements.take(pa.array(order))
        keys = None if keys is None else keys.take(pa.array(order))
        groups = groups[order]
    _, offsets, data = statements.buffers()
    bounds = np.frombuffer(offsets, np.int32)[statements.offset : statements.offset + rows + 1]
    return Encoded(batch, order, bounds, memoryview(data if data is not None else b""), keys, groups)


def _check_sizes(statements: pa.BinaryArray, most: int) -> None:
    largest = pc.max(pc.binary_length(statements)).as_py() or 0
    if largest > most:
        raise BadDataError(f"it takes {largest} bytes, more than the option 'maxRowBytes' ({most}) allows")


def _routing_keys(batch: pa.RecordBatch, plan: WritePlan) -> pa.BinaryArray | None:
    """Returns what a partition key's hash is made of: its one cell, or all of them with their lengths."""
    if not plan.partition_key:
        return None
    cells = [key_cells(batch.column(one.column), one.cql) for one in plan.partition_key]
    if len(cells) == 1:
        return cells[0]
    parts = []
    for cell in cells:
        sizes = pc.binary_length(cell).to_numpy(zero_copy_only=False).astype(">u2")
        heads = pa.Array.from_buffers(
            pa.binary(),
            len(sizes),
            [None, pa.py_buffer(np.arange(len(sizes) + 1, dtype=np.int32) * 2), pa.py_buffer(sizes)],
        )
        parts += [heads, cell, pa.scalar(b"\0", pa.binary())]
    return pc.binary_join_element_wise(*parts, _EMPTY)


def requests(encoded: Encoded, batch_bytes: int, timestamp_us: int | None) -> Iterator[Request]:
    """Requests of at most ``batch_bytes`` and a row, each of one group. One at least takes every row."""
    rows = len(encoded.order)
    if not rows:
        return
    begins = encoded.offsets[:-1].astype(np.int64) // batch_bytes
    marks: list[Any] = [begins, encoded.groups, np.arange(rows) // _MOST_ROWS]
    changes = np.zeros(rows - 1, bool)
    for mark in marks:
        changes |= mark[1:] != mark[:-1]
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), rows]
    for first, last in itertools.pairwise(bounds):
        yield Request(encoded, first, last, timestamp_us)


def find_bad_rows(batch: pa.RecordBatch, plan: WritePlan, options: SinkOptions) -> dict[int, str]:
    """Returns why rows can't be written, by their number."""
    grouping = Grouping("replica", (), ())
    return rows_refused_by(lambda rows: encode_rows(rows, plan, grouping, options), batch)
