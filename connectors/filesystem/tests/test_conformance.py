"""The conformance kit on the file system."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite, SparkSourceSuite
from penstock_filesystem import FileSystemConnector
from suite.kit import TieredSparkSinkSuite, by_default

GOLDEN = Path(__file__).parent / "golden"


class TestSink(SinkSuite):
    connector = FileSystemConnector
    many, most_memory_bytes = 400_000, 48 << 20  # of 80 MB

    @pytest.fixture
    def new_target(self, tmp_path):
        def make():
            folder = tmp_path / uuid.uuid4().hex

            def read():
                paths = [path for path in folder.rglob("*.json") if not is_hidden(path.relative_to(folder))]
                return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

            def hidden():
                files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
                return [str(path) for path in files if is_hidden(path)]

            return SinkTarget({"path": str(folder), "format": "json"}, read, hidden)

        return make


class TestSinkOnSpark(TieredSparkSinkSuite):
    connector, new_target = FileSystemConnector, TestSink.new_target


class TestSource(SourceSuite):
    connector = FileSystemConnector
    golden = GOLDEN
    limit = ("maxFilesPerTrigger", "4", 4)

    @pytest.fixture
    def origin(self, tmp_path):
        folder = tmp_path / "in"
        folder.mkdir()

        def put(ids):
            path = folder / f"{uuid.uuid4().hex}.json"
            whole = tmp_path / "part"
            whole.write_text("".join(f'{{"id": {i}}}\n' for i in ids))
            whole.rename(path)

        options = {"path": str(folder), "format": "json", "discoveryInterval": "20ms"}
        return SourceOrigin(options, put)


class TestSourceOnSpark(SparkSourceSuite):
    connector, golden, origin = FileSystemConnector, GOLDEN, TestSource.origin
    test_a_reader_is_killed = by_default(
        SparkSourceSuite.test_a_reader_is_killed,
        "after fetch",
        otherwise="a kill at the other step; the one after a fetch stays",
    )


class TestParquetSource(SourceSuite):
    """Of any schema: every type is read as it was written."""

    connector = FileSystemConnector
    golden = GOLDEN
    limit = ("maxFilesPerTrigger", "4", 4)

    @pytest.fixture
    def origin(self, tmp_path):
        folder = tmp_path / "in"
        folder.mkdir()

        def put_table(table):
            pq.write_table(table, tmp_path / "part")
            (tmp_path / "part").rename(folder / f"{uuid.uuid4().hex}.parquet")

        def put(ids):
            put_table(pa.table({"id": pa.array(ids, pa.int64())}))

        options = {"path": str(folder), "format": "parquet", "discoveryInterval": "20ms"}
        return SourceOrigin(options, put, put_table)


def is_hidden(path):
    return any(part.startswith((".", "_")) for part in path.parts)
