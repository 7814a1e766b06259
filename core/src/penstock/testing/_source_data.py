"""The cases of a source about what it reads: types, values, columns, memory."""

from __future__ import annotations

import functools
import itertools
import pickle
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa
import pytest

from penstock.connector import Capability
from penstock.errors import BadConfigurationError, BadDataError
from penstock.testing._calls import slowness
from penstock.testing._capabilities import proves
from penstock.testing._machines import elsewhere
from penstock.testing._memory import HeldBytes, counting_objects, peak_growth_bytes
from penstock.testing._origin import SourceOrigin
from penstock.testing._rows import ODD_TEXTS, SPARK_TYPES, shown_cell
from penstock.testing._source_base import SourceBase
from penstock.testing._source_engine import SourceQuery
from penstock.testing._verdict import does_not_apply, not_tried

__all__ = ["SourceDataCases"]

#: Rows that are looked at together: as objects they take much more memory.
_AT_ONCE = 1000
#: Of the case about memory: what differs from run to run (bytes), and for how long it looks for an end of growth.
_SMALL_CHANGE, _MEMORY_S = 64 << 10, 30.0
#: What systems and authors take for the most rows of a page or a request.
_LIMITS = (1, 25, 50, 100, 128, 200, 250, 256, 500, 512, 1000, 1024)


@dataclass
class _Reading:
    """What was read, with its size as Arrow has it, and what tasks held of it at most, and kept when they had ended."""

    rows: int = 0
    bytes: int = 0
    peak: int = 0
    kept: int = 0

    def _most(self, less: _Reading) -> int:
        # Half of what there is more to read: a reader that holds it all, in any form, holds more.
        return _SMALL_CHANGE + (self.bytes - less.bytes) // 2

    def keeps(self, less: _Reading) -> bool:
        """Returns whether the process keeps anything for the rows that the reading of less did not have: what it holds
        for the rows of both has been there since then.
        """
        return self.kept > self._most(less)

    def keeps_more_than(self, less: _Reading) -> bool:
        """Returns whether that grows with the rows. What each reading leaves, whatever it has read, does not."""
        return self.keeps(less) and 2 * self.kept > 3 * less.kept

    def holds_more_than(self, less: _Reading) -> bool:
        """Returns whether more is held than in a reading of less, by more than what varies, or anything is kept."""
        return self.peak - less.peak > self._most(less) or self.keeps(less)


class SourceDataCases(SourceBase):
    """Values arrive. ``many``: the rows of the case about memory; ``most_memory_bytes``: by how much a task may grow
    meanwhile; ``read_ahead_bytes``: how much of what it reads it may hold. ``equal_rows``: whether the system keeps two
    rows that are equal; not if a column is a key.
    """

    many: ClassVar[int] = 200_000
    most_memory_bytes: ClassVar[int] = 128 << 20
    read_ahead_bytes: ClassVar[int] = 16 << 20
    equal_rows: ClassVar[bool] = True

    def _put_table(self, origin: SourceOrigin, table: pa.Table, what: str) -> None:
        """Puts rows with further columns there, if that can be had; ``what`` is not tried otherwise."""
        if self._create(self._parse(origin.options)).fixed_schema() is not None:
            does_not_apply("the schema is the source's own")
        if origin.put_table is None:
            not_tried(what, "SourceOrigin.put_table")
        try:
            origin.put_table(table)
        except NotImplementedError:
            does_not_apply("the system has no such type")

    @proves(Capability.BATCH_READ)
    @pytest.mark.parametrize("name", SPARK_TYPES)
    def test_every_type_is_read_or_refused(self, origin: SourceOrigin, name: str) -> None:
        """Purpose: a column of any of Spark's types, with its extremes and with nulls.

        Steps: rows with one more column, of that type, are put there, and read in another time zone than the test's.
        Pass: the source refuses the schema, with an error that says so; or every value is as it was put there.
        If it fails: refuse types in validate_schema, with BadConfigurationError.
        """
        kind, values = SPARK_TYPES[name]
        column = pa.array([None, *values, None], kind)
        table = pa.table({"id": pa.array(range(len(column)), pa.int64()), "extra": column})
        self._put_table(origin, table, "values")
        try:
            with elsewhere():
                source = self._create_for(self._parse(origin.options), table.schema)
                rows = SourceQuery(source, table.schema).read_all_now()
        except (BadConfigurationError, BadDataError):
            return
        read = pa.Table.from_pylist(sorted(rows, key=lambda row: int(row["id"])), table.schema)
        found = [shown_cell(value, kind) for value in read.column("extra").to_pylist()]
        assert found == [shown_cell(value, kind) for value in column.to_pylist()]

    @proves(Capability.BATCH_READ)
    def test_text_is_read_as_it_is(self, origin: SourceOrigin) -> None:
        """Purpose: no text is mistaken for something else: quotes, blanks, line ends, other scripts, 70,000 characters.

        Steps: one row for each of such texts is put there, and read with a locale whose encoding is ASCII.
        Pass: each is read as it was put there.
        If it fails: take texts as they are; a format says itself what is escaped. Name the encoding of a file: it is
        that of the machine otherwise.
        """
        texts = [*ODD_TEXTS, " between blanks "]
        table = pa.table({"id": pa.array(range(len(texts)), pa.int64()), "extra": pa.array(texts)})
        self._put_table(origin, table, "texts")
        with elsewhere():
            source = self._create_for(self._parse(origin.options), table.schema)
            rows = SourceQuery(source, table.schema).read_all_now()
        assert {row["id"]: row["extra"] for row in rows} == dict(enumerate(texts))

    @proves(Capability.STREAM_READ)
    def test_many_rows_in_bounded_memory(self, origin: SourceOrigin) -> None:
        """Purpose: a task may read more rows than fit into memory.

        Steps: half of ``many`` rows are put there and read from the beginning, then all of them; twice as many as long
        as a task holds more for more rows, and there is time.
        Pass: a task holds no more for more rows than before, or what it holds does not exceed ``read_ahead_bytes`` (the
        verdict says if no more could be tried); nothing is kept when it has ended; and its process grows by less than
        ``most_memory_bytes``. As many rows have come, and their numbers add up.
        If it fails: bound the elements that a fetch returns to a few MiB, and hand them on before the next fetch. What
        is handed on is not yours any more. Numbers that do not add up were cut where a block ends.
        """
        bulk = replace(origin, options={**origin.options, **origin.in_bulk})
        if Capability.RESUMABLE not in self.connector.capabilities:
            bulk.put(range(self.many))
            self._read_many(bulk, self.many)
            not_tried("bounded memory", "second reading from the beginning")
        until = time.monotonic() + _MEMORY_S * slowness()
        rows = self.many // 2
        bulk.put(range(rows))
        with counting_objects():
            before = self._read_many(bulk, rows)
            for number in itertools.count():
                began = time.monotonic()
                bulk.put(range(rows, 2 * rows))
                rows *= 2
                found = self._read_many(bulk, rows)
                if not found.holds_more_than(before):
                    break
                most = self.read_ahead_bytes
                assert found.peak < most, f"a task that reads {rows:,} rows holds {found.peak >> 20} MiB of them"
                assert not (number and found.keeps_more_than(before)), (
                    f"{found.kept:,} bytes of {rows:,} rows are kept when they were handed on, and {before.kept:,} of "
                    "half as many"
                )
                if time.monotonic() + 3 * (time.monotonic() - began) > until:
                    not_tried("bounded memory", f"more than {rows:,} rows in 'many', or lower 'read_ahead_bytes'")
                before = found

    def _read_many(self, origin: SourceOrigin, rows: int) -> _Reading:
        """Reads that many rows from the beginning."""
        query, found, total = SourceQuery(self._source(origin), self.schema), _Reading(), 0

        def read(batch: int) -> None:
            nonlocal total
            tasks = query.tasks(batch)
            pickle.dumps(tasks)  # the first time, Python makes a dictionary of each object, and keeps it
            held = HeldBytes()
            for splits in tasks:
                for part in query.read_task(splits):
                    found.peak = max(found.peak, held.now())
                    found.rows += part.num_rows
                    found.bytes += part.nbytes
                    if rows <= self.many:  # that of more is not worth the time
                        for at in range(0, part.num_rows, _AT_ONCE):
                            total += sum(map(self.id_of, part.slice(at, _AT_ONCE).to_pylist()))
            part = None
            found.kept += held.kept()

        try:
            while found.rows < rows:
                batch = self._plan(query)
                grown = peak_growth_bytes(functools.partial(read, batch))
                query.commit(batch)
                query.forget()
                assert grown < self.most_memory_bytes, f"the tasks grew by {grown >> 20} MiB"
            assert found.rows == rows, f"{found.rows} rows came of {rows}"
            if rows <= self.many:
                assert total == sum(range(rows)), f"as many rows as were put there came, and {total} is not their sum"
        finally:
            query.stop()
        return found

    @proves(Capability.STREAM_READ)
    def test_equal_rows_are_all_read(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: two events may be equal, and are two.

        Steps: the same rows are put there together and in two calls, if the system takes them.
        Pass: each has come as many times.
        If it fails: know what was read by its position, never by what is in it. If a column is a key of the system, set
        ``equal_rows = False``.
        """
        if not self.equal_rows:
            does_not_apply("a column is a key (equal_rows = False)")
        try:
            origin.put([0, 0, 1])
            origin.put([0, 1])
        except Exception as error:
            does_not_apply(f"the system takes no two equal rows: {error}")
        self._read_rest(query, Counter({0: 3, 1: 2}))

    @proves(Capability.STREAM_READ)
    def test_as_many_rows_as_a_limit(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a page of 100 or 1,000 rows may be just full, and may be the last one.

        Steps: as many rows as limits often are come at once, and are read, one limit after the other; at once in a
        bounded source.
        Pass: every row has come once.
        If it fails: read on to the end that the system reports, also after a page that is full.
        """
        sizes = [size for number, size in enumerate(_LIMITS) if sum(_LIMITS[: number + 1]) <= self.many]
        if self._is_bounded:
            sizes = sizes[-2:-1]
        first = 0
        for size in sizes:
            rows = range(first, first + size)
            origin.put(rows)
            self._read_rest(query, Counter(rows))
            first += size

    @proves(Capability.STREAM_READ)
    def test_large_numbers(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: numbers are 64 bits wide.

        Steps: rows with numbers up to 2^53 + 1 are put there, which neither 32 bits nor a float can hold.
        Pass: every row has come once.
        If it fails: parse whole numbers as such, and give the column the type of the schema.
        """
        if self.numbers_are_positions:
            does_not_apply("splits are ranges of the numbers")
        numbers = [0, 2**31 - 1, 2**31, 2**40 + 7, 2**53 + 1]
        origin.put(numbers)
        self._read_rest(query, Counter(numbers))

    @proves(Capability.BATCH_READ)
    @pytest.mark.parametrize("wanted", [["extra", "id"], ["id"], ["extra"]], ids=["another order", "fewer", "the last"])
    def test_columns_are_known_by_their_names(self, origin: SourceOrigin, wanted: list[str]) -> None:
        """Purpose: a schema names the columns that a query reads, in an order of its own.

        Steps: rows of two columns are put there, and read with a schema of both in the opposite order, or of one.
        Pass: the source refuses the schema; or every value is in the column of its name.
        If it fails: look columns up by name, never by position.
        """
        table = pa.table({"id": pa.array(range(3), pa.int64()), "extra": pa.array(["a", None, "c"])})
        self._put_table(origin, table, "columns")
        schema = pa.schema([table.schema.field(name) for name in wanted])
        try:
            rows = SourceQuery(self._create_for(self._parse(origin.options), schema), schema).read_all_now()
        except (BadConfigurationError, BadDataError):
            return
        read = pa.Table.from_pylist(rows, schema)
        assert sorted(map(str, read.to_pylist())) == sorted(map(str, table.select(wanted).to_pylist()))
