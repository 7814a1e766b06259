"""Runs a source without Spark: what its enumerator finds, and what a task reads."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from penstock.connector import Connector
from penstock.metrics import Metrics
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.source import ReaderContext, SourceReader
from penstock.spark._coordinator import Coordinator

__all__ = ["SourceHarness", "read_splits"]


def read_splits(
    source: Any,
    splits: Sequence[Any],
    schema: pa.Schema | None = None,
    metrics: Metrics | None = None,
    retry: RetryPolicy = NO_RETRIES,
) -> list[pa.RecordBatch]:
    """Returns what a task would read in another process: it reads with a pickled copy of the source."""
    schema = schema or source.fixed_schema()
    source.validate_schema(schema)
    copy = pickle.loads(pickle.dumps(source))
    return list(SourceReader(copy, ReaderContext(schema, metrics or Metrics(), retry)).read(splits))


class SourceHarness:
    """A connector's source with its enumerator and readers.

    ``where`` holds the options that every test gives, ``options`` those of this test, with ``_`` for ``.`` in names.
    """

    def __init__(self, connector: Connector, where: Mapping[str, str], **options: object) -> None:
        given = {**where, **{name.replace("_", "."): str(value) for name, value in options.items()}}
        assert connector.source_options is not None
        values = connector.source_options.parse(given, owner="source")
        self.source: Any = connector.create_source(values)
        self.retry = RetryPolicy.from_values(values)
        self.metrics = Metrics()
        self.coordinator = Coordinator(self.metrics)

    def schema(self) -> pa.Schema:
        """Returns all columns."""
        schema: pa.Schema = self.source.fixed_schema()
        return schema

    def list_splits(self) -> list[Any]:
        """Returns the splits of a batch read."""
        return list(self.source.list_splits(self.coordinator))

    def read(self, splits: Sequence[Any], schema: pa.Schema | None = None) -> list[dict[str, Any]]:
        """Returns the rows of ``splits``, read in one task."""
        return [
            row
            for batch in read_splits(self.source, splits, schema, self.metrics, self.retry)
            for row in batch.to_pylist()
        ]

    def rows(self, schema: pa.Schema | None = None) -> list[dict[str, Any]]:
        """Returns the rows of a batch read."""
        return self.read(self.list_splits(), schema)

    def values(self) -> list[Any]:
        """Returns the column ``value`` of a batch read."""
        return [row["value"] for row in self.rows()]

    @contextmanager
    def enumerator(self, state: Any = None) -> Iterator[Any]:
        """Starts an enumerator, at the beginning or from ``state``."""
        enumerator = self.source.create_enumerator(self.coordinator, state)
        enumerator.start()
        try:
            yield enumerator
        finally:
            enumerator.close()
            self.coordinator.close()
