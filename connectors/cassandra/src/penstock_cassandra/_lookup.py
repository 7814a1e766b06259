"""Rows enriched by key from a table: many lookups at a time, and none twice in an Arrow batch."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import penstock
from penstock.enrichment import TableLookup
from penstock.errors import BadConfigurationError, RetriableError
from penstock_cassandra._tables import quoted, table_of
from penstock_cassandra.client import Client, Page, Statement, acquire_client, release_client, shared_client
from penstock_cassandra.options import LOOKUP_OPTIONS, LookupOptions
from penstock_cassandra.types import arrow_type, check_writable, cql_type_of, decode_page, key_cells, prefixed

__all__ = ["Lookup"]

ResultT = TypeVar("ResultT")


class Lookup(TableLookup):
    """Joins rows with a table of Cassandra by key, without reading the table.

    ``options`` are ``keyspace``, ``table``, ``consistency``, and those of the source that say where the cluster is and
    how to connect (``host`` …). ``on`` maps columns of the rows to
    columns of the table, which must be its partition key at least; a list, where names are the same. ``columns`` are
    those to add. A row without a match gets nulls; with ``inner`` it is left out. A key with several rows in the table
    gives as many. Each key of an Arrow batch is asked for once, ``max_in_flight`` at a time. Picklable; connects in
    tasks. Memory: an Arrow batch (``spark.sql.execution.arrow.maxRecordsPerBatch`` keys), and what was found for it::

        enriched = Lookup({"host": "10.0.0.1", "keyspace": "k", "table": "users"}, ["user"], ["name"]).enrich(rows)
    """

    def __init__(
        self,
        options: Mapping[str, str],
        on: Sequence[str] | Mapping[str, str],
        columns: Sequence[str],
        *,
        inner: bool = False,
        max_in_flight: int = 32,
    ) -> None:
        given = {name: str(value) for name, value in options.items()}
        values = LOOKUP_OPTIONS.parse(given, owner="lookup in penstock.cassandra")
        self._options = LookupOptions.from_values(values)
        self._on = dict(on) if isinstance(on, Mapping) else {name: name for name in on}
        self._columns = list(columns)
        self.inner = inner
        self._max_in_flight = max(1, max_in_flight)

    def enrich(self, rows: Any) -> Any:
        """``penstock.enrich(rows, self)``: a DataFrame of Spark, batch or stream, with the columns after its own."""
        return penstock.enrich(rows, self)

    @property
    def key_columns(self) -> Sequence[str]:
        return list(self._on)

    def result_schema(self) -> pa.Schema:
        return _schema(self._prepare(shared_client(self._options.connection)))

    def look_up(self, keys: pa.RecordBatch) -> pa.ListArray:
        """A key with a null has no rows; a cluster that can't be asked is tried for ``retryTimeout``."""
        client = self._call(lambda: acquire_client(self._options.connection))
        try:
            return self._looked_up(client, keys)
        finally:
            release_client(client)

    def _looked_up(self, client: Client, keys: pa.RecordBatch) -> pa.ListArray:
        statement = self._call(lambda: self._prepare(client))
        cells = []
        for name, marker in zip(self._on, statement.markers, strict=True):
            cql = cql_type_of(marker[3])
            check_writable(name, cql, keys.column(name).type)
            cells.append(key_cells(keys.column(name), cql))
        usable = pa.array(np.ones(keys.num_rows, bool))
        for cell in cells:
            usable = pc.and_(usable, cell.is_valid())
        whole = pc.binary_join_element_wise(*map(prefixed, cells), pa.scalar(b"", pa.binary()))
        distinct = pc.if_else(usable, whole, pa.scalar(None, pa.binary())).dictionary_encode()
        numbers = distinct.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        _, first = np.unique(numbers[numbers >= 0], return_index=True)
        rows = np.flatnonzero(numbers >= 0)[first]
        found, counts = self._found(client, statement, [[cell[int(row)].as_py() for cell in cells] for row in rows])
        # The last count is that of rows whose key is null (-1): none.
        each = counts[numbers]
        ends = np.cumsum(each)
        within = np.arange(each.sum()) - np.repeat(ends - each, each)
        right = np.repeat((np.cumsum(counts) - counts)[numbers], each) + within
        values = found.take(pa.array(right)).to_struct_array().combine_chunks()
        return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), values)

    def _prepare(self, client: Client) -> Statement:
        keyspace, name = self._options.keyspace, self._options.table
        table = table_of(client, keyspace, name)
        missing = [column.name for column in table.partition_key if column.name not in self._on.values()]
        if missing:
            raise BadConfigurationError(
                f"a lookup needs the whole partition key of {keyspace}.{name}: '{missing[0]}' is missing"
            )
        columns = ", ".join(map(quoted, self._columns))
        where = " AND ".join(f"{quoted(column)} = ?" for column in self._on.values())
        cql = f"SELECT {columns} FROM {quoted(keyspace)}.{quoted(name)} WHERE {where}"  # noqa: S608 - quoted
        return client.prepare(cql, table.id)

    def _found(self, client: Client, statement: Statement, keys: list[list[bytes]]) -> tuple[pa.Table, Any]:
        """Returns what was found, key by key, and how many rows for each."""
        types = [cql_type_of(column[3]) for column in statement.columns]
        schema = _schema(statement)
        found: list[pa.RecordBatch] = []
        counts = np.zeros(len(keys) + 1, np.int64)
        under_way: deque[tuple[int, Any]] = deque()
        # A loop per key: each is a request.
        for number in range(len(keys) + self._max_in_flight):
            if number < len(keys):
                under_way.append((number, client.execute_async(statement, keys[number])))
            if under_way and (number >= len(keys) or len(under_way) >= self._max_in_flight):
                at, future = under_way.popleft()
                for page in self._pages(client, statement, keys[at], future):
                    columns = decode_page(page.rows.body, page.rows.count, types, list(schema.types), schema.names)
                    found.append(pa.RecordBatch.from_arrays(columns, schema=schema))
                    counts[at] += page.rows.count
        return pa.Table.from_batches(found, schema), counts

    def _pages(self, client: Client, statement: Statement, key: list[bytes], future: Any) -> Iterator[Page]:
        what = f"looking up in {self._options.keyspace}.{self._options.table}"
        try:
            page = client.page(future, what)
        except RetriableError:
            page = self._call(lambda: client.page(client.execute_async(statement, key), what))
        yield page
        while (state := page.next) is not None:
            page = self._call(functools.partial(self._next_page, client, statement, key, state, what))
            yield page

    @staticmethod
    def _next_page(client: Client, statement: Statement, key: list[bytes], state: bytes, what: str) -> Page:
        return client.page(client.execute_async(statement, key, paging_state=state), what)

    def _call(self, call: Callable[[], ResultT]) -> ResultT:
        return self._options.retry.call(call, "lookup")


def _schema(statement: Statement) -> pa.Schema:
    return pa.schema([(column[2], arrow_type(cql_type_of(column[3]))) for column in statement.columns])
