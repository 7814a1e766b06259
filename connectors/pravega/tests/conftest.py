"""A real server for every test: the one that PENSTOCK_PRAVEGA_ADDRESS names, or one of the test run's own."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pytest

from penstock.dev import open_server
from penstock.metrics import Metrics
from penstock.source import ReaderContext, SourceReader
from penstock.spark._coordinator import Coordinator
from penstock_pravega.client import _segment_stores
from penstock_pravega.dev import PravegaDevServer, PravegaToolbox
from penstock_pravega.options import SOURCE_OPTIONS, SourceOptions
from penstock_pravega.source import PravegaSource
from suite.kept import kept_for_directory


@pytest.fixture(scope="module")
def pravega_address(request, tmp_path_factory):
    return kept_for_directory(
        request, "pravega", lambda: open_server(PravegaDevServer(quick_start=True), tmp_path_factory.mktemp("pravega"))
    )


@pytest.fixture(scope="module")
def pravega(pravega_address):
    """A :class:`PravegaToolbox` in a scope of the file's own: take streams of your own."""
    toolbox = PravegaToolbox(pravega_address, f"tests-{uuid.uuid4().hex[:8]}")
    yield toolbox
    toolbox.close()


@pytest.fixture
def no_pauses(monkeypatch):
    """What a segment store refuses is tried again almost at once: for tests in which nothing has to pass meanwhile."""
    monkeypatch.setattr(_segment_stores, "_PAUSE_S", 0.001)


class SourceHarness:
    """A source with its enumerator and readers, without Spark. Options as a user writes them, with _ for . in names."""

    def __init__(self, pravega: PravegaToolbox, **options: object) -> None:
        own = {"controller": pravega.address, "scope": pravega.scope}
        given = {**own, **{name.replace("_", "."): str(option) for name, option in options.items()}}
        self.source = PravegaSource(
            SourceOptions.from_values(SOURCE_OPTIONS.parse(given, owner="source penstock.pravega"))
        )
        self.metrics = Metrics()
        self.coordinator = Coordinator(self.metrics)

    def schema(self) -> pa.Schema:
        return self.source.fixed_schema()

    def list_splits(self):
        return list(self.source.list_splits(self.coordinator))

    def read(self, splits: Sequence[object], schema: pa.Schema | None = None) -> list[dict[str, object]]:
        """Rows of ``splits``, read in one task of a process elsewhere, so to speak: the source is pickled."""
        schema = schema or self.schema()
        self.source.validate_schema(schema)
        source = pickle.loads(pickle.dumps(self.source))
        batches = SourceReader(source, ReaderContext(schema, self.metrics)).read(splits)
        return [row for batch in batches for row in batch.to_pylist()]

    def rows(self, schema: pa.Schema | None = None) -> list[dict[str, object]]:
        """A batch read."""
        return self.read(self.list_splits(), schema)

    def values(self) -> list[object]:
        return [row["value"] for row in self.rows()]

    @contextmanager
    def enumerator(self, state=None) -> Iterator[object]:
        enumerator = self.source.create_enumerator(self.coordinator, state)
        enumerator.start()
        try:
            yield enumerator
        finally:
            enumerator.close()
            self.coordinator.close()


@pytest.fixture
def pravega_source(pravega):
    """``pravega_source(stream=name, …)``: a :class:`SourceHarness` on the shared server."""
    return lambda **options: SourceHarness(pravega, **options)
