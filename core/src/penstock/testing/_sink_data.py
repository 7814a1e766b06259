"""The cases of a sink about what it writes: types, values, columns, memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from penstock.connector import Capability
from penstock.errors import BadConfigurationError, BadDataError
from penstock.sink import IdempotentSink
from penstock.testing._calls import patiently
from penstock.testing._capabilities import proves
from penstock.testing._machines import elsewhere
from penstock.testing._memory import peak_growth_bytes, resident_bytes
from penstock.testing._rows import SPARK_TYPES, shown_cell
from penstock.testing._sink_base import DECIDED, SinkBase, query_crashing
from penstock.testing._sink_engine import Shares, SinkQuery
from penstock.testing._target import SinkTarget
from penstock.testing._verdict import does_not_apply, not_tried

__all__ = ["SinkDataCases"]

#: Of the case about memory (bytes).
_SMALLEST_ROW, _LARGEST_ROW = 200, 2_000
#: What the case itself keeps for a while, more than once, counts as well: batches are small next to the limit.
_SHARE_OF_MEMORY = 32
#: What systems and authors take for the most rows of a request, a page or a buffer.
_LIMITS = (1, 25, 50, 100, 128, 200, 250, 256, 500, 512, 1000, 1024)


class SinkDataCases(SinkBase):
    """What a sink writes. ``many``: the rows of the case about memory; ``most_memory_bytes``: by how much a task may
    grow meanwhile. ``equal_rows``: whether the system keeps two rows that are equal; not if a column is a key.
    """

    many: ClassVar[int] = 1_000_000
    most_memory_bytes: ClassVar[int] = 128 << 20
    equal_rows: ClassVar[bool] = True

    @proves(Capability.STREAM_WRITE)
    @pytest.mark.parametrize("name", SPARK_TYPES)
    def test_every_type_is_written_or_refused(self, target: SinkTarget, tmp_path: Path, name: str) -> None:
        """Purpose: a column of any of Spark's types, with its extremes and with nulls.

        Steps: rows with one more column, of that type, are written in another time zone than the test's, and read back
        by ``read_table``; one by one if a value is refused.
        Pass: the sink refuses the schema, or a value, with an error that says so; every other row can be read once, and
        each value is the one that was written.
        If it fails: refuse types in validate_schema, with BadConfigurationError; values with BadDataError. A null is
        not an empty text, a decimal no float, and a timestamp has a zone or has none: never that of the machine.
        """
        kind, values = SPARK_TYPES[name]
        column = pa.array([None, *values, None], kind)
        self._write_extra(target, tmp_path, pa.field("extra", kind), column)

    @proves(Capability.STREAM_WRITE)
    def test_large_numbers(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: numbers are 64 bits wide, in keys too.

        Steps: rows with numbers up to 2^53 + 1 are written, which neither 32 bits nor a float can hold.
        Pass: every row can be read once, unless the sink refuses them.
        If it fails: keep whole numbers whole in every step, and give the column a type that holds them.
        """
        numbers = [0, 2**31 - 1, 2**31, 2**40 + 7, 2**53 + 1]
        try:
            query.run_all([[[self.batch(numbers)]]])
        except (BadConfigurationError, BadDataError, pa.ArrowException):
            does_not_apply("the rows have no such numbers")
        self._check(target, Counter(numbers))

    @proves(Capability.STREAM_WRITE)
    def test_a_nul_in_a_text_is_written_or_refused(self, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: a text may hold the character NUL, where libraries in C see the end.

        Steps: rows with such texts are written, and read back; one by one if a value is refused.
        Pass: each text can be read as it was written; or it is refused, with BadDataError.
        If it fails: pass texts with their length. Refuse them where the system can't hold them, and never cut them.
        """
        texts = ["\0", "before \0 and after", "at the end \0"]
        batch = self.with_texts(range(len(texts)), texts)
        if batch is None:
            not_tried("texts", "column text in what batch makes")
        try:
            self._query(target, tmp_path / "penstock-query").run_all([[[batch]]])
            taken = list(range(len(texts)))
        except BadDataError:
            folders = [tmp_path / f"text-{number}" for number in range(len(texts))]
            taken = [n for n, folder in enumerate(folders) if self._is_taken(target, folder, batch.slice(n, 1))]
        read = {self.id_of(row): self.text_of(row) for row in target.read()}
        assert read == {number: texts[number] for number in taken}

    def _write_extra(self, target: SinkTarget, tmp_path: Path, field: pa.Field, column: pa.Array) -> None:
        """Writes rows with one more column, and compares what can be read; a refusal will do."""
        schema = self.schema.append(field)
        rows = self.batch(range(len(column)))
        batch = pa.RecordBatch.from_arrays([*rows.columns, column], schema=schema)
        if target.prepare is not None:
            try:
                target.prepare(field)
            except NotImplementedError:
                does_not_apply("the system has no such column")
        taken = list(range(len(column)))
        try:
            with elsewhere():
                self._query(target, tmp_path / "penstock-query", schema).run_all([[[batch]]])
        except BadConfigurationError:
            return
        except BadDataError:
            one_by_one = [(row, batch.slice(row, 1), tmp_path / f"value-{row}") for row in taken]
            taken = [row for row, one, folder in one_by_one if self._is_taken(target, folder, one)]
            if not taken:
                return
            batch = pa.Table.from_batches([batch]).take(taken).combine_chunks().to_batches()[0]
        self._check(target, Counter(taken))
        if target.read_table is None:
            not_tried("values", "SinkTarget.read_table")
        table = target.read_table(schema)
        ids = [self.id_of(row) for row in table.select(self.schema.names).to_pylist()]
        for name in schema.names:
            read = [value for _, value in sorted(zip(ids, table.column(name).to_pylist(), strict=True), key=_number)]
            written = batch.column(name).to_pylist()
            kind = schema.field(name).type
            pairs = [(shown_cell(one, kind), shown_cell(other, kind)) for one, other in zip(read, written, strict=True)]
            differing = [row for row, (one, other) in enumerate(pairs) if one != other]
            if differing:
                row = differing[0]
                raise AssertionError(
                    f"column '{name}' ({schema.field(name).type}): {written[row]!r} was written, and {read[row]!r} is "
                    f"read; {len(differing)} of {len(written)} values differ"
                )

    def _is_taken(self, target: SinkTarget, folder: Path, row: pa.RecordBatch) -> bool:
        """Writes one row. Returns whether it was not refused."""
        try:
            with elsewhere():
                self._query(target, folder, row.schema).run_all([[[row]]])
        except BadDataError:
            return False
        return True

    @proves(Capability.STREAM_WRITE)
    def test_names_that_differ_only_in_case(self, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: Spark's columns may be called ``id`` and ``ID``.

        Steps: rows with one more column, whose name is that of the first one in other letters.
        Pass: the sink refuses the schema; or every row can be read once, with the values of both columns.
        If it fails: refuse it in validate_schema, with BadConfigurationError, where the system takes both for one.
        """
        name = self.schema.names[0].swapcase()
        if name in self.schema.names:
            does_not_apply("the first column has no letters")
        column = pa.array([f"other {number}" for number in range(3)])
        self._write_extra(target, tmp_path, pa.field(name, pa.string()), column)

    @proves(Capability.STREAM_WRITE)
    def test_columns_in_another_order(self, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: a query selects its columns in another order, and values end up in the wrong ones.

        Steps: rows are written whose columns are in the opposite order.
        Pass: every row can be read once, with its text.
        If it fails: look columns up by name; a statement names the columns that it writes.
        """
        names = self.schema.names[::-1]
        schema = pa.schema([self.schema.field(name) for name in names])
        texts = {number: f"text {number}" for number in range(5)}
        batch = self.with_texts(list(texts), list(texts.values()))
        if batch is None:
            not_tried("columns", "column text in what batch makes")
        self._query(target, tmp_path / "penstock-query", schema).run_all([[[batch.select(names)]]])
        self._check(target, Counter(texts.keys()))
        assert {self.id_of(row): self.text_of(row) for row in target.read()} == texts

    @proves(Capability.STREAM_WRITE)
    def test_equal_rows_are_all_written(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: two events may be equal, and are two.

        Steps: the same row is written twice in an Arrow batch, in two tasks, and in two batches.
        Pass: it can be read as many times.
        If it fails: know what was written by its batch and its attempt, or by its segment; never by what is in it. If
        a column is a key of the system, set ``equal_rows = False``.
        """
        if not self.equal_rows or isinstance(query.sink, IdempotentSink):
            does_not_apply("rows are written under a key")
        rows = [self.batch([0, 0, 1])]
        query.run_all([[rows, rows], [rows]])
        self._check(target, Counter({0: 6, 1: 3}))

    @proves(Capability.STREAM_WRITE)
    def test_as_many_rows_as_a_limit(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: systems limit a request to 25 or 500 rows, and buffers hold 1,024: one of them is just full.

        Steps: tasks with as many rows as limits often are, in one Arrow batch; then in batches of 25.
        Pass: every row can be read once.
        If it fails: look at what happens when a buffer is just full, and at the end of a task that has just sent one.
        """
        sizes = [size for number, size in enumerate(_LIMITS) if 2 * sum(_LIMITS[: number + 1]) <= self.many]
        firsts = [sum(sizes[:number]) for number in range(len(sizes))]
        shares = [[self.batch(range(first, first + size))] for first, size in zip(firsts, sizes, strict=True)]
        total = sum(sizes)
        in_parts = [
            [rows.slice(at, 25) for at in range(0, size, 25)]
            for first, size in zip(firsts, sizes, strict=True)
            for rows in [self.batch(range(total + first, total + first + size))]
        ]
        query.run_all([shares, in_parts])
        self._check(target, Counter(range(2 * total)))

    @proves(Capability.STREAM_WRITE)
    def test_many_rows_in_bounded_memory(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: a task may get more rows than fit into memory.

        Steps: one task writes ``many`` rows, in Arrow batches of up to 5,000 rows and 1/32 of
        ``most_memory_bytes``. A row has 200 bytes, or up to 2,000 if there are too few to tell.
        Pass: the process grows by less than ``most_memory_bytes``, and every row can be read once.
        If it fails: hand rows on while they come; bound what waits in queues.
        """
        text = "x" * min(_LARGEST_ROW, max(_SMALLEST_ROW, self.most_memory_bytes * 3 // 2 // self.many))

        step = min(5_000, max(1, self.most_memory_bytes // _SHARE_OF_MEMORY // len(text)))

        def share() -> Iterator[pa.RecordBatch]:
            before = resident_bytes()
            for first in range(0, self.many, step):
                grown = resident_bytes() - before  # reported as soon as it is known, with memory left
                assert grown < self.most_memory_bytes, f"the task grew by {grown >> 20} MiB in {first} rows"
                ids = range(first, min(first + step, self.many))
                yield self.with_texts(ids, [text] * len(ids)) or self.batch(ids)

        query.run(0, [[self.batch([self.many])]])  # what a first batch costs is not the point
        with patiently():
            grown = peak_growth_bytes(lambda: query.run(1, [share()]))
            query.finish()
        assert grown < self.most_memory_bytes, f"the task grew by {grown >> 20} MiB"
        self._check(target, Counter(range(self.many + 1)))
        if self.many * len(text) < 1.4 * self.most_memory_bytes:
            rows = (
                f"more than {self.many:,} rows in 'many', for 'most_memory_bytes' of {self.most_memory_bytes >> 20} MiB"
            )
            not_tried("bounded memory", rows)

    @pytest.mark.parametrize("change", ["a column more", "a column less"])
    @proves(Capability.STREAM_WRITE)
    def test_the_schema_changes(self, query: SinkQuery, target: SinkTarget, tmp_path: Path, change: str) -> None:
        """Purpose: a query is changed, and started again from its checkpoint.

        Steps: a batch; the driver ends in the middle of the second one's commit; the query continues with a column
        more, or less; if that is refused, it continues as it was.
        Pass: every row can be read once (at least once, for a sink that promises no more).
        If it fails: refuse in validate_schema, with BadConfigurationError; what was decided is carried out still.
        """
        wider = self.schema.append(pa.field("added", pa.string()))
        narrow_batches = self._batches()
        wide_batches: list[Shares] = [[[_widened(b, wider) for b in s] for s in shares] for shares in narrow_batches]
        before, after = (self.schema, narrow_batches), (wider, wide_batches)
        if change == "a column less":
            before, after = after, before
        try:
            old = self._query(target, tmp_path / "changing", before[0])
            old.run(0, before[1][0])
        except (BadConfigurationError, BadDataError):
            return  # it takes no column more
        if old.commits:
            results = old.tasks(1, before[1][1])
            with query_crashing(old, DECIDED):
                old.commit(1, results)
        try:
            new = self._query(target, tmp_path / "changing", after[0], old)
            new.run_all(after[1])
        except (BadConfigurationError, BadDataError):
            old.restart()
            old.run_all(before[1])
        self._check(target, self._ids(), promised=True)


def _widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    added = pa.array([f"added {i}" for i in range(batch.num_rows)], pa.string())
    return pa.RecordBatch.from_arrays([*batch.columns, added], schema=schema)


def _number(pair: tuple[int, Any]) -> int:
    return pair[0]
