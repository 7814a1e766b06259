"""A data source in Python that does nothing: it yields one Arrow batch over and over, and drops what is written to it.

How fast Spark takes and gives those is the most that any source or sink in Python can reach.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

__all__ = ["BOUND_FORMAT", "bound_frame", "register_bound"]

BOUND_FORMAT = "bench.bound"


class _Share(InputPartition):
    """What one task yields."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class _Reader(DataSourceReader):
    def __init__(self, path: str, rows: int, tasks: int) -> None:
        self._path, self._rows, self._tasks = path, rows, tasks

    def partitions(self) -> list[InputPartition]:
        """As many tasks as were asked for."""
        shares = [self._rows // self._tasks] * self._tasks
        shares[0] += self._rows % self._tasks
        return [_Share(rows) for rows in shares]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The batch, again and again."""
        batch = _load(self._path)
        left = partition.rows
        while left > 0:
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows


class _Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Takes everything."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


class Nothing(DataSource):
    """Options for reading: ``file`` (one Arrow batch), ``rows``, ``tasks``."""

    @classmethod
    def name(cls) -> str:
        """What goes into ``.format(...)``."""
        return BOUND_FORMAT

    def schema(self) -> StructType:
        """That of the batch."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(_load(self.options["file"]).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Batch reading."""
        return _Reader(self.options["file"], int(self.options["rows"]), int(self.options["tasks"]))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Batch writing."""
        return _Writer()


def _load(path: str) -> pa.RecordBatch:
    with pa.OSFile(path) as file:
        return pa.ipc.open_file(file).get_batch(0)


def register_bound(spark: SparkSession) -> None:
    """Workers don't find this file by its name: it travels by value."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(Nothing)


def bound_frame(spark: SparkSession, path: str, batch: pa.RecordBatch, *, rows: int, tasks: int) -> DataFrame:
    """``rows`` rows out of ``batch``, which is put into the file ``path``."""
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    options: Mapping[str, Any] = {"file": path, "rows": rows, "tasks": tasks}
    return spark.read.format(BOUND_FORMAT).options(**options).load()
