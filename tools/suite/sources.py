"""A source without Spark: what its enumerator finds, and what a task reads of that."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from penstock.connector import Connector
from penstock.metrics import Metrics
from penstock.source import ReaderContext, SourceReader
from penstock.spark._coordinator import Coordinator

__all__ = ["SourceHarness", "read_splits"]


def read_splits(
    source: Any, splits: Sequence[Any], schema: pa.Schema | None = None, metrics: Metrics | None = None
) -> list[pa.RecordBatch]:
    """What a task reads, in a process elsewhere, so to speak: the source is pickled."""
    schema = schema or source.fixed_schema()
    source.validate_schema(schema)
    copy = pickle.loads(pickle.dumps(source))
    return list(SourceReader(copy, ReaderContext(schema, metrics or Metrics())).read(splits))


class SourceHarness:
    """A connector's source with its enumerator and readers.

    ``options`` are as a user writes them, with ``_`` for ``.`` in their names; ``where`` are those every test gives.
    """

    def __init__(self, connector: Connector, where: Mapping[str, str], **options: object) -> None:
        given = {**where, **{name.replace("_", "."): str(value) for name, value in options.items()}}
        assert connector.source_options is not None
        self.source: Any = connector.create_source(connector.source_options.parse(given, owner="source"))
        self.metrics = Metrics()
        self.coordinator = Coordinator(self.metrics)

    def schema(self) -> pa.Schema:
        """All columns."""
        schema: pa.Schema = self.source.fixed_schema()
        return schema

    def list_splits(self) -> list[Any]:
        """Of a batch read."""
        return list(self.source.list_splits(self.coordinator))

    def read(self, splits: Sequence[Any], schema: pa.Schema | None = None) -> list[dict[str, Any]]:
        """Rows of ``splits``, read in one task."""
        return [row for batch in read_splits(self.source, splits, schema, self.metrics) for row in batch.to_pylist()]

    def rows(self, schema: pa.Schema | None = None) -> list[dict[str, Any]]:
        """A batch read."""
        return self.read(self.list_splits(), schema)

    def values(self) -> list[Any]:
        """Its column ``value``."""
        return [row["value"] for row in self.rows()]

    @contextmanager
    def enumerator(self, state: Any = None) -> Iterator[Any]:
        """A started one, from the beginning or from ``state``."""
        enumerator = self.source.create_enumerator(self.coordinator, state)
        enumerator.start()
        try:
            yield enumerator
        finally:
            enumerator.close()
            self.coordinator.close()
