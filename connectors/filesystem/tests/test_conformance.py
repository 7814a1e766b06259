"""The conformance kit on the file system."""

from __future__ import annotations

import base64
import datetime
import json
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite, SparkSourceSuite, away
from penstock.testing._rows import SPARK_TYPES
from penstock_filesystem import FileSystemConnector
from suite.kit import TieredSparkSinkSuite, by_default

#: What JSON itself has; what stands for the others is compared with Spark in test_source_formats.
OF_JSON = [
    SPARK_TYPES[name][0] for name in ["boolean", "byte", "short", "int", "long", "string", "array", "struct", "map"]
]
GOLDEN = Path(__file__).parent / "golden"


def of_json(value, kind):
    """What a text of Spark's JSON means."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_date(kind):
        return datetime.date.fromisoformat(value)
    if pa.types.is_timestamp(kind):
        return datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    if pa.types.is_binary(kind):
        return base64.b64decode(value)
    if pa.types.is_map(kind):
        return list(value.items())
    return value


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

            def read_table(schema):
                paths = [path for path in folder.rglob("*.json") if not is_hidden(path.relative_to(folder))]
                texts = [line for path in paths for line in path.read_text().splitlines()]
                rows = [json.loads(text, parse_float=Decimal) for text in texts]
                columns = [
                    pa.array([of_json(row.get(field.name), field.type) for row in rows], field.type) for field in schema
                ]
                return pa.Table.from_arrays(columns, schema=schema)

            def lose():
                for name in hidden():
                    (folder / name).unlink()

            def take():
                for path in folder.rglob("*.json"):
                    if not is_hidden(path.relative_to(folder)):
                        path.unlink()

            return SinkTarget(
                {"path": str(folder), "format": "json"},
                read,
                hidden,
                lose,
                unreachable=lambda: away(folder),
                read_table=read_table,
                take=take,
            )

        return make


class TestParquetSink(SinkSuite):
    """Of any schema: every type is there as it was written."""

    connector = FileSystemConnector
    many, most_memory_bytes = 200_000, 160 << 20  # a row group of 64 MiB, and its columns

    @pytest.fixture
    def new_target(self, tmp_path):
        def make():
            folder = tmp_path / uuid.uuid4().hex

            def tables():
                paths = [path for path in folder.rglob("*.parquet") if not is_hidden(path.relative_to(folder))]
                return [pq.ParquetFile(path).read() for path in paths]

            def read_table(schema):
                return pa.concat_tables([table.select(schema.names) for table in tables()])

            def hidden():
                files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
                return [str(path) for path in files if is_hidden(path)]

            def lose():
                for name in hidden():
                    (folder / name).unlink()

            def take():
                for path in folder.rglob("*.parquet"):
                    if not is_hidden(path.relative_to(folder)):
                        path.unlink()

            return SinkTarget(
                {"path": str(folder), "format": "parquet"},
                lambda: [row for table in tables() for row in table.to_pylist()],
                hidden,
                lose,
                unreachable=lambda: away(folder),
                read_table=read_table,
                take=take,
            )

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

        def put_table(table):
            if table.schema.field(-1).type not in OF_JSON:
                raise NotImplementedError
            rows = table.to_pylist(maps_as_pydicts="strict")
            (tmp_path / "part").write_text("".join(json.dumps(row) + "\n" for row in rows))
            (tmp_path / "part").rename(folder / f"{uuid.uuid4().hex}.json")

        options = {"path": str(folder), "format": "json", "discoveryInterval": "20ms"}
        return SourceOrigin(options, put, put_table, unreachable=lambda: away(folder))


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
        return SourceOrigin(options, put, put_table, unreachable=lambda: away(folder))


def is_hidden(path):
    return any(part.startswith((".", "_")) for part in path.parts)
