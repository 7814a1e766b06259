"""The cases of a source on real Spark. An author gives the fixture of the other suite to a second class::

    class TestNotesOnSpark(SparkSourceSuite):
        connector = NotesConnector
        origin = TestNotes.origin

The session is the fixture ``penstock_spark``, as for :class:`penstock.testing.SparkSinkSuite`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.connector import Capability
from penstock.testing._capabilities import proves
from penstock.testing._origin import SourceOrigin
from penstock.testing._source_cases import SourceCases
from penstock.testing._spark_engine import KillingFuse, SparkSourceQuery

__all__ = ["SparkSourceSuite"]

_NewQuery = Callable[..., SparkSourceQuery]


@pytest.mark.spark
class SparkSourceSuite(SourceCases):
    """See the module."""

    @pytest.fixture
    def new_query(self, origin: SourceOrigin, penstock_spark: SparkSession, tmp_path: Path) -> _NewQuery:
        """Makes queries on one checkpoint."""

        def make(fuse: KillingFuse | None = None) -> SparkSourceQuery:
            checkpoint = tmp_path / "penstock-checkpoint"
            return SparkSourceQuery(penstock_spark, self.connector, origin.options, self.schema, checkpoint, fuse)

        return make

    @staticmethod
    def _all_of(count: int) -> Callable[[Counter[int]], bool]:
        return lambda seen: seen.total() >= count

    @proves(Capability.BATCH_READ)
    def test_a_batch_read(self, new_query: _NewQuery, origin: SourceOrigin) -> None:
        """Purpose: a batch job on Spark misses rows, or reads some twice.

        Steps: rows are put there at two times; a batch is read.
        Pass: every row once.
        If it fails: see the case of that name without Spark; what is only here is Arrow becoming Spark's rows.
        """
        for first in (0, 10):
            origin.put(range(first, first + 10))
        assert Counter(self.id_of(row) for row in new_query().read_all_now()) == Counter(range(20))

    @proves(Capability.STREAM_READ)
    def test_a_stream_and_its_metrics(self, new_query: _NewQuery, origin: SourceOrigin) -> None:
        """Purpose: a stream misses rows, or a dashboard shows numbers that are not true.

        Steps: rows are put there; a query runs until they have come.
        Pass: every row once, and 'rows_read' says how many.
        If it fails: see the case of that name without Spark.
        """
        origin.put(range(20))
        query = new_query()
        assert query.run(self._all_of(20), self.id_of) == Counter(range(20))
        assert query.metrics["rows_read"] == 20

    @proves(Capability.RESUMABLE)
    def test_a_restart(self, new_query: _NewQuery, origin: SourceOrigin) -> None:
        """Purpose: a query resumes from its checkpoint.

        Steps: two runs until all rows have come; more are put there before the second.
        Pass: every row once over both; of a bounded source, those of the first.
        If it fails: see test_a_restart_at_every_step.
        """
        origin.put(range(10))
        query = new_query()
        assert query.run(self._all_of(10), self.id_of) == Counter(range(10))
        origin.put(range(10, 20))
        there = 10 if Capability.BOUNDED in self.connector.capabilities else 20
        assert query.run(self._all_of(there), self.id_of) == Counter(range(there))

    @proves(Capability.RESUMABLE)
    def test_available_now(self, new_query: _NewQuery, origin: SourceOrigin) -> None:
        """Purpose: a nightly run never ends, or ends before it has read what was there.

        Steps: rows are put there; a query reads what is there.
        Pass: it ends by itself, with every row once.
        If it fails: see the case of that name without Spark.
        """
        origin.put(range(10))
        assert new_query().run_available_now(self.id_of) == Counter(range(10))

    @pytest.mark.parametrize("step", ["before fetch", "after fetch"])
    @proves(Capability.RESUMABLE)
    def test_a_reader_is_killed(self, new_query: _NewQuery, origin: SourceOrigin, tmp_path: Path, step: str) -> None:
        """Purpose: executors are lost.

        Steps: the first Python process that fetches is killed; Spark runs its task again, or the query is restarted.
        Pass: every row once, of what counts.
        If it fails: what is read must be decided by the splits alone.
        """
        origin.put(range(20))
        query = new_query(KillingFuse(step, tmp_path / "burnt"))
        assert query.run(self._all_of(20), self.id_of) == Counter(range(20))
        assert (tmp_path / "burnt").exists()
