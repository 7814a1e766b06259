"""The cases of a source about what it reads: types, values, columns, memory."""

from __future__ import annotations

import functools
from collections import Counter
from typing import ClassVar

import pyarrow as pa
import pytest

from penstock.connector import Capability
from penstock.errors import BadConfigurationError, BadDataError
from penstock.testing._capabilities import proves
from penstock.testing._machines import elsewhere
from penstock.testing._memory import peak_growth_bytes
from penstock.testing._origin import SourceOrigin
from penstock.testing._rows import ODD_TEXTS, SPARK_TYPES, shown_cell
from penstock.testing._source_base import SourceBase
from penstock.testing._source_engine import SourceQuery
from penstock.testing._verdict import does_not_apply, not_tried

__all__ = ["SourceDataCases"]

#: Rows that are looked at together: as objects they take much more memory.
_AT_ONCE = 1000
#: What systems and authors take for the most rows of a page or a request.
_LIMITS = (1, 25, 50, 100, 128, 200, 250, 256, 500, 512, 1000, 1024)


class SourceDataCases(SourceBase):
    """Values arrive. ``many``: the rows of the case about memory; ``most_memory_bytes``: by how much a task may grow
    meanwhile. ``equal_rows``: whether the system keeps two rows that are equal; not if a column is a key.
    """

    many: ClassVar[int] = 1_000_000
    most_memory_bytes: ClassVar[int] = 128 << 20
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

        Steps: ``many`` rows are put there; batches are planned and read until they have come.
        Pass: the process grows by less than ``most_memory_bytes`` while tasks read; as many rows have come, and their
        numbers add up.
        If it fails: bound the elements that a fetch returns to a few MiB. Numbers that do not add up were cut where a
        block ends.
        """
        origin.put(range(self.many))
        query = SourceQuery(self._source(origin), self.schema)
        read = total = 0

        def read_batch(batch: int) -> None:
            nonlocal read, total
            for splits in query.tasks(batch):
                for part in query.read_task(splits):
                    read += part.num_rows
                    for at in range(0, part.num_rows, _AT_ONCE):
                        total += sum(map(self.id_of, part.slice(at, _AT_ONCE).to_pylist()))

        try:
            while read < self.many:
                batch = self._plan(query)
                grown = peak_growth_bytes(functools.partial(read_batch, batch))
                query.commit(batch)
                assert grown < self.most_memory_bytes, f"the tasks grew by {grown >> 20} MiB"
            assert read == self.many, f"{read} rows came of {self.many}"
            assert total == sum(range(self.many)), f"as many rows as were put there came, and {total} is not their sum"
        finally:
            query.stop()

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
