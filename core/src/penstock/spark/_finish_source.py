"""``penstock finish`` as a format that a Connect session reads: the server reaches what a client may not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

__all__ = ["FinishSource", "finish_on_server"]

_FORMAT = "penstock-finish"
_CHECKPOINT = "penstock.checkpoint"


def finish_on_server(spark: Any, checkpoint: str, options: dict[str, str]) -> str:
    """Publishes what a query that was stopped holds open. Returns what was in the way; empty: nothing is open any more.

    ``options`` are the sink's, with its secrets. ``spark`` is a session in which :class:`FinishSource` is registered.
    """
    row = spark.read.format(_FORMAT).options(**{**options, _CHECKPOINT: checkpoint}).load().first()
    return str(row["problem"])


class FinishSource(DataSource):
    """One row: what was in the way, or nothing."""

    @classmethod
    def name(cls) -> str:
        """Returns the format."""
        return _FORMAT

    def schema(self) -> str:
        """See above."""
        return "problem string"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Works while it plans, so on the driver."""
        options = {name: text for name, text in self.options.items() if name.lower() != _CHECKPOINT}
        return _FinishReader(self.options[_CHECKPOINT], options)


@dataclass
class _Problem(InputPartition):
    text: str


class _FinishReader(DataSourceReader):
    def __init__(self, checkpoint: str, options: dict[str, str]) -> None:
        self._checkpoint = checkpoint
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Driver."""
        from penstock.checkpoint import finish
        from penstock.errors import PenstockError

        try:
            finish(self._checkpoint, self._options)
        except (PenstockError, OSError) as error:
            return [_Problem(str(error))]
        return [_Problem("")]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """Task."""
        assert isinstance(partition, _Problem)
        yield (partition.text,)
