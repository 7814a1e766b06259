"""The cases of a sink on real Spark. An author gives the fixture of the other suite to a second class::

    class TestNotesOnSpark(SparkSinkSuite):
        connector = NotesConnector
        new_target = TestNotes.new_target

The session is the fixture ``penstock_spark``: two cores of this machine, or whatever session the author's tests have
made before. Processes are killed with SIGKILL from within (:mod:`penstock.testing._spark_engine`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import monotonically_increasing_id

from penstock.connector import Capability
from penstock.errors import BadConfigurationError, BadDataError
from penstock.testing._capabilities import proves
from penstock.testing._rows import SPARK_TYPES
from penstock.testing._sink_cases import SinkCases
from penstock.testing._spark_engine import KillingFuse, SparkSinkQuery
from penstock.testing._target import SinkTarget
from penstock.testing._verdict import does_not_apply

__all__ = ["SparkSinkSuite"]

#: At which processes are killed: in a task, in a task, on the driver.
_STEPS = ["before write", "after prepare_commit", "before publish", "half way through publish", "after publish"]


@pytest.mark.spark
class SparkSinkSuite(SinkCases):
    """See the module and :class:`penstock.testing._sink_cases.SinkCases`."""

    @pytest.fixture(autouse=True)
    def _session(self, penstock_spark: SparkSession) -> None:
        self._spark = penstock_spark

    def _query(
        self,
        target: SinkTarget,
        folder: Path,
        schema: pa.Schema | None = None,
        fuse: KillingFuse | None = None,
        sink_name: str = "",
    ) -> SparkSinkQuery:
        wanted = schema if schema is not None else self.schema
        return SparkSinkQuery(self._spark, self.connector, target.options, wanted, folder, fuse, sink_name)

    @proves(Capability.STREAM_WRITE)
    def test_every_type_comes_through(self, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: columns of Spark's types, with their extremes and with nulls, through Spark.

        Steps: rows with a column of every type that the sink takes are written.
        Pass: every row can be read once; or a value is refused with an error that says so.
        If it fails: see test_every_type_is_written_or_refused, which tries them one by one without Spark.
        """
        taken = [(kind, values) for kind, values in SPARK_TYPES.values() if self._takes(target, kind)]
        schema, count = self.schema, 1 + max(len(values) for _, values in SPARK_TYPES.values())
        columns = list(self.batch(range(count)).columns)
        for number, (kind, values) in enumerate(taken):
            schema = schema.append(pa.field(f"extra_{number}", kind))
            columns.append(pa.array(values + [None] * (count - len(values)), kind))
        try:
            query = self._query(target, tmp_path / "types", schema)
            query.run_all([[[pa.RecordBatch.from_arrays(columns, schema=schema)]]])
        except (BadConfigurationError, BadDataError):
            return
        self._check(target, Counter(range(count)))

    def _takes(self, target: SinkTarget, kind: pa.DataType) -> bool:
        try:
            self._create_for(self._parse(target.options), self.schema.append(pa.field("extra", kind)))
        except (BadConfigurationError, BadDataError):
            return False
        return True

    @pytest.mark.parametrize("step", _STEPS)
    @proves(Capability.STREAM_WRITE)
    def test_a_process_is_killed(self, target: SinkTarget, tmp_path: Path, step: str) -> None:
        """Purpose: executors are lost, and drivers.

        Steps: three batches; the first Python process that comes to the step is killed; the query is started again if
        Spark does not carry on by itself.
        Pass: every row can be read once; at least once, for a sink that promises only this.
        If it fails: see test_a_crash_at_every_step, which does the same without Spark, at more steps.
        """
        query = self._query(target, tmp_path / "killed", fuse=KillingFuse(step, tmp_path / "burnt"))
        query.run_all(self._batches())
        self._check(target, self._ids(), promised=True)
        if not (tmp_path / "burnt").exists():
            does_not_apply(f"the sink never comes to the step '{step}'")

    @pytest.mark.parametrize("step", _STEPS)
    @proves(Capability.EXACTLY_ONCE)
    def test_a_batch_function_is_killed(self, target: SinkTarget, tmp_path: Path, step: str) -> None:
        """Purpose: executors or the driver are lost while the function of ``foreachBatch`` writes.

        Steps: three batches; the first Python process that comes to the step is killed; the query is started again if
        Spark does not carry on by itself, and runs its function again.
        Pass: every row can be read once.
        If it fails: see test_a_batch_function_crashes_at_every_step, which does the same without Spark.
        """
        query = self._query(target, tmp_path / "killed", None, KillingFuse(step, tmp_path / "burnt"), "kit")
        query.run_all(self._batches())
        self._check(target, self._ids())
        if not (tmp_path / "burnt").exists():
            does_not_apply(f"the sink never comes to the step '{step}'")

    @proves(Capability.BATCH_WRITE)
    def test_a_batch_write(self, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: a batch job reports success, and rows are missing at the target.

        Steps: rows are written in three tasks, twice.
        Pass: every row can be read once.
        If it fails: a batch write has no checkpoint, and no batch before or after it.
        """
        shape = [(3, 2, 4), (1, 5, 2)]
        for shares in self._batches(shape):
            self._query(target, tmp_path).write_batch(shares)
        self._check(target, self._ids(shape))

    @proves(Capability.BATCH_WRITE)
    def test_a_batch_write_that_fails(self, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: a batch job fails half way, and a part of its rows stays at the target.

        Steps: the last of three tasks fails; the rows are written again.
        Pass: the error comes through; every row can be read once (at least once) in the end.
        If it fails: Committer.abort must throw away what the other tasks have prepared.
        """
        shares = self._batches([(3, 2, 4)])[0]
        query = self._query(target, tmp_path)
        first, *others = self.schema.names
        frame = query.frame(shares).withColumn("number", monotonically_increasing_id())
        broken = f"if(number = 8, raise_error('poison'), {first}) as {first}"
        with pytest.raises(Exception, match="poison"):
            query.save(frame.repartition(3).selectExpr(broken, *others))
        query.write_batch(shares)
        self._check(target, self._ids([(3, 2, 4)]), promised=True)
