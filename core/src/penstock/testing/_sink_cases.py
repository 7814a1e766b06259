"""The cases that a sink has to pass on every engine: without Spark (:class:`penstock.testing.SinkSuite`), and on Spark
(:class:`penstock.testing.SparkSinkSuite`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pytest

from penstock._letters import create_sink
from penstock.connector import Capability
from penstock.errors import PenstockError
from penstock.options import OptionSet, OptionValues
from penstock.serialization import SimpleVersionedSerializer
from penstock.sink import Sink, TwoPhaseCommitSink, state_serializer_of
from penstock.testing._capabilities import proves, refuses
from penstock.testing._connector_suite import ConnectorSuite
from penstock.testing._differences import difference
from penstock.testing._machines import elsewhere
from penstock.testing._rows import ODD_TEXTS
from penstock.testing._sink_engine import Shares
from penstock.testing._target import SinkTarget
from penstock.testing._verdict import not_tried

__all__ = ["AnySinkQuery", "SinkCases"]

#: How many batches, and rows of each task of each batch, the cases write that are about more than one.
_SHAPE: tuple[tuple[int, ...], ...] = ((3, 2), (2, 0, 4), (1,))


class AnySinkQuery(Protocol):
    """What both engines offer."""

    @property
    def rows_written(self) -> int:
        """What the metrics say of all tasks so far."""

    def restart(self) -> None:
        """A new driver on the same checkpoint."""

    def run(self, batch_id: int, shares: Shares) -> None:
        """One micro-batch."""

    def run_all(self, batches: Sequence[Shares]) -> None:
        """Every batch that is not done yet, then publishes what is still carried."""

    def finish(self) -> None:
        """Publishes what is carried from batch to batch, and cleans up."""


class SinkCases(ConnectorSuite):
    """What may be overridden: ``schema``, :meth:`batch` and :meth:`id_of` for a sink that takes other rows."""

    side: ClassVar[Capability] = Capability.STREAM_WRITE
    schema: ClassVar[pa.Schema] = pa.schema([("id", pa.int64()), ("text", pa.string())])

    @pytest.fixture
    def new_target(self) -> Callable[[], SinkTarget]:
        """Returns a function that makes an empty target each time it is called. To be overridden."""
        raise NotImplementedError("write a fixture 'new_target' that returns a function which makes a SinkTarget")

    @pytest.fixture
    def target(self, new_target: Callable[[], SinkTarget]) -> SinkTarget:
        """Returns the target of a case that needs one."""
        return new_target()

    def _query(self, target: SinkTarget, folder: Path, schema: pa.Schema | None = None) -> AnySinkQuery:
        """Returns a query that writes to ``target``; what it keeps is in ``folder``."""
        raise NotImplementedError

    @pytest.fixture
    def query(self, target: SinkTarget, tmp_path: Path) -> AnySinkQuery:
        """Returns a query that writes to ``target``."""
        return self._query(target, tmp_path / "penstock-query")

    # --- rows ---------------------------------------------------------------------------------------------------------

    def batch(self, ids: Sequence[int]) -> pa.RecordBatch:
        """Rows of ``schema`` that :meth:`id_of` can distinguish once they are read back."""
        return pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"row {i}" for i in ids])], schema=self.schema)

    def id_of(self, row: Mapping[str, Any]) -> int:
        """Returns which row it is, of those that :meth:`batch` made."""
        return int(row["id"])

    def _batches(self, shape: Sequence[Sequence[int]] = _SHAPE) -> list[Shares]:
        """Returns that many rows for every batch and task, each with a number of its own, in Arrow batches of two.

        They are slices, which begin in the middle of their memory, as those of Arrow tables are.
        """
        batches: list[Shares] = []
        first = 0
        for counts in shape:
            shares = []
            for count in counts:
                rows = self.batch(list(range(first, first + count)))
                first += count
                shares.append([rows.slice(at, 2) for at in range(0, count, 2)])
            batches.append(shares)
        return batches

    @staticmethod
    def _ids(shape: Sequence[Sequence[int]] = _SHAPE) -> Counter[int]:
        return Counter(range(sum(sum(counts) for counts in shape)))

    def _seen(self, target: SinkTarget) -> Counter[int]:
        return Counter(self.id_of(row) for row in target.read())

    def _check(
        self,
        target: SinkTarget,
        wanted: Counter[int],
        when: str = "",
        *,
        promised: bool = False,
        taken: Counter[int] | None = None,
    ) -> None:
        """Raises AssertionError that says which rows are lost, duplicated, or were never to be seen.

        ``promised``: what the connector declares, so that a sink which promises at least once may have duplicated some.
        ``taken`` are rows that a reader has taken away before.
        """
        may_double = promised and Capability.EXACTLY_ONCE not in self.connector.capabilities
        if problem := difference(self._seen(target) + (taken or Counter()), wanted, may_double=may_double):
            raise AssertionError(f"{problem}{when and ' '}{when}")

    # --- the sink -----------------------------------------------------------------------------------------------------

    @pytest.fixture
    def given(self, target: SinkTarget) -> Mapping[str, str]:
        return target.options

    def _option_set(self) -> OptionSet:
        declared = self.connector.sink_options
        assert declared is not None, f"{self.connector.__name__} declares no sink_options"
        return declared

    def _create(self, options: OptionValues) -> Sink:
        return self._create_for(options, self.schema)

    def _create_for(self, options: OptionValues, schema: pa.Schema) -> Sink:
        sink = create_sink(self.connector(), options, schema)
        sink.validate_schema(schema)
        return sink

    def _serializers(self, made: Any) -> dict[str, SimpleVersionedSerializer[Any]]:
        if not isinstance(made, TwoPhaseCommitSink):
            return {}
        return {"committable": made.committable_serializer, "state": state_serializer_of(made)}

    # --- basics -------------------------------------------------------------------------------------------------------

    @proves(Capability.STREAM_WRITE)
    def test_rows_arrive(self, query: AnySinkQuery, target: SinkTarget) -> None:
        """Purpose: a job reports success, and rows are missing at the target.

        Steps: three batches of one to three tasks, one of them without rows.
        Pass: every row can be read once.
        If it fails: look at write() and commit(); rows of a task's later Arrow batches are the ones often forgotten.
        """
        query.run_all(self._batches())
        self._check(target, self._ids())

    @proves(Capability.STREAM_WRITE)
    def test_batches_without_rows(self, query: AnySinkQuery, target: SinkTarget) -> None:
        """Purpose: triggers without data, tasks without rows and Arrow batches without rows are everyday events.

        Steps: a batch without tasks, tasks without Arrow batches, an Arrow batch of no rows, then one row.
        Pass: no error, and the one row can be read once.
        If it fails: make connections and files with the first row only; a task without rows has nothing to commit.
        """
        empty = self.batch([])
        query.run_all([[], [[], []], [[empty], [empty, empty]], [[empty, self.batch([0]), empty]], []])
        self._check(target, Counter([0]))

    @proves(Capability.STREAM_WRITE)
    def test_metrics_count_rows(self, query: AnySinkQuery, target: SinkTarget) -> None:
        """Purpose: a dashboard shows rows that do not add up.

        Steps: one batch of two tasks; their metrics are added up.
        Pass: 'rows_written' is the number of rows.
        If it fails: add it to context.metrics in prepare_commit, when the rows are known to be there.
        """
        query.run_all(self._batches([(3, 2)]))
        assert query.rows_written == 5

    @proves(Capability.RESCALING)
    def test_scale_up_and_down(self, query: AnySinkQuery, target: SinkTarget) -> None:
        """Purpose: a query continues with another number of tasks, also after a restart.

        Steps: batches of one, four, two and one tasks, with a restart of the driver before each.
        Pass: every row can be read once.
        If it fails: state must not be tied to a writer's index: see TwoPhaseCommitSink.owner_key.
        """
        shape = [(2,), (3, 1, 2, 2), (1, 5), (4,)]
        for batch_id, shares in enumerate(self._batches(shape)):
            query.restart()
            query.run(batch_id, shares)
        query.finish()
        self._check(target, self._ids(shape))

    # --- data ---------------------------------------------------------------------------------------------------------

    def text_of(self, row: Mapping[str, Any]) -> str | None:
        """Returns the text of a row that was read; ``None`` if rows have none."""
        text = row.get("text")
        return None if text is None else str(text)

    def with_texts(self, ids: Sequence[int], texts: Sequence[str | None]) -> pa.RecordBatch | None:
        """Rows with these texts, for the cases about text and upserts; ``None`` if rows have none."""
        batch = self.batch(ids)
        at = batch.schema.get_field_index("text")
        return None if at < 0 else batch.set_column(at, batch.schema.field(at), pa.array(texts, pa.string()))

    @proves(Capability.STREAM_WRITE)
    def test_text_arrives_as_it_is(self, query: AnySinkQuery, target: SinkTarget) -> None:
        """Purpose: no text is mistaken for something else: quotes, line ends, other scripts, 70,000 characters.

        Steps: one row for each of such texts, written with a locale whose encoding is ASCII.
        Pass: each can be read as it was written.
        If it fails: escape, or better pass values apart from the statement. Name the encoding of a file: it is that of
        the machine otherwise.
        """
        batch = self.with_texts(range(len(ODD_TEXTS)), ODD_TEXTS)
        if batch is None:
            not_tried("texts", "column text in what batch makes")
        with elsewhere():
            query.run_all([[[batch]]])
        read = {self.id_of(row): self.text_of(row) for row in target.read()}
        assert read == dict(enumerate(ODD_TEXTS))

    @proves(Capability.STREAM_WRITE)
    def test_a_huge_row_is_written_or_refused(self, query: AnySinkQuery, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: one row of 16 MiB among small ones.

        Steps: a batch with it; if that is refused, another query writes a batch without it.
        Pass: all rows can be read once; or it is refused with an error, and the other batch can be read once.
        If it fails: a row that is too large is BadDataError (or FatalError), and nothing of its batch may be visible.
        """
        batch = self.with_texts([0, 1, 2], ["a", "x" * (16 << 20), "c"])
        if batch is None:
            not_tried("texts", "column text in what batch makes")
        try:
            query.run_all([[[batch]]])
        except PenstockError:
            self._query(target, tmp_path / "penstock-another").run_all([[[self.batch([0, 2])]]])
            self._check(target, Counter([0, 2]))
        else:
            self._check(target, Counter([0, 1, 2]))

    # --- what is not declared -----------------------------------------------------------------------------------------

    @refuses(Capability.STREAM_WRITE)
    def test_streams_are_refused(self, given: Mapping[str, str]) -> None:
        """Purpose: a connector that can't write streams says so.

        Steps: Spark asks for a stream writer.
        Pass: BadConfigurationError that says what can't be done.
        If it fails: declare the capability, or leave sink_options out.
        """
        with self._refused(Capability.STREAM_WRITE):
            self._data_source(given).streamWriter(self._struct(self.schema), False)

    @refuses(Capability.BATCH_WRITE)
    def test_batch_writes_are_refused(self, given: Mapping[str, str]) -> None:
        """Purpose: a connector that can't write a DataFrame says so.

        Steps: Spark asks for a writer.
        Pass: BadConfigurationError that says what can't be done.
        If it fails: declare the capability, or leave sink_options out.
        """
        with self._refused(Capability.BATCH_WRITE):
            self._data_source(given).writer(self._struct(self.schema), False)

    @refuses(Capability.EXACTLY_ONCE)
    def test_it_does_not_say_exactly_once(self, given: Mapping[str, str]) -> None:
        """Purpose: a user relies on a promise that is not made, and finds rows twice after a crash.

        Steps: the guarantee is read.
        Pass: it does not say 'exactly once'.
        If it fails: declare the capability, so that it is proven; or describe what holds.
        """
        said = self.connector().describe_guarantee().lower().replace("-", " ")
        assert "exactly once" not in said.replace("effectively exactly once", "")
