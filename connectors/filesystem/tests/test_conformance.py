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

from penstock.testing import SPARK_TYPES, SinkSuite, SinkTarget, SourceOrigin, SourceSuite, SparkSinkSuite, away
from penstock_filesystem import FileSystemConnector
from suite.kit import TieredSparkSinkSuite, TieredSparkSourceSuite, by_default

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


def target_of_files(folder, kind, rows_of, tables_of):
    """A folder with files of a format, and what reads one of them: rows, and a table of a schema."""

    def files(are_hidden):
        paths = [path for path in folder.rglob("*") if path.is_file()]
        return [path for path in paths if is_hidden(path.relative_to(folder)) == are_hidden]

    def remove(are_hidden):
        for path in files(are_hidden):
            path.unlink()

    return SinkTarget(
        {"path": str(folder), "format": kind},
        read=lambda: [row for path in files(False) for row in rows_of(path)],
        hidden=lambda: [str(path.relative_to(folder)) for path in files(True)],
        lose=lambda: remove(True),
        unreachable=lambda: away(folder),
        read_table=lambda schema: pa.concat_tables([tables_of(path, schema) for path in files(False)]),
        take=lambda: remove(False),
    )


class TestSink(SinkSuite):
    connector = FileSystemConnector
    many, most_memory_bytes = 400_000, 48 << 20  # of 80 MB

    @pytest.fixture
    def new_target(self, tmp_path):
        def rows_of(path, **how):
            return [json.loads(line, **how) for line in path.read_text().split("\n") if line]

        def table_of(path, schema):
            rows = rows_of(path, parse_float=Decimal)
            columns = [[of_json(row.get(field.name), field.type) for row in rows] for field in schema]
            return pa.table(columns, schema=schema)

        return lambda: target_of_files(tmp_path / uuid.uuid4().hex, "json", rows_of, table_of)


@pytest.mark.exhaustive("the kit once more; TestSink is the witness, and Spark reads Parquet in the first tier's tests")
class TestParquetSink(SinkSuite):
    """Of any schema: every type is there as it was written."""

    connector = FileSystemConnector
    many, most_memory_bytes = 200_000, 160 << 20  # a row group of 64 MiB, and its columns

    @pytest.fixture
    def new_target(self, tmp_path):
        def rows_of(path):
            return pq.ParquetFile(path).read().to_pylist()

        def table_of(path, schema):
            return pq.ParquetFile(path).read().select(schema.names)

        return lambda: target_of_files(tmp_path / uuid.uuid4().hex, "parquet", rows_of, table_of)


@pytest.mark.exhaustive("the kit on a third-party format; test_third_party_formats.py shows what is different there")
class TestThirdPartySink(SinkSuite):
    """Files that can't be continued by a later batch."""

    connector = FileSystemConnector
    many, most_memory_bytes = 200_000, 64 << 20

    @pytest.fixture
    def new_target(self, tmp_path):
        def table_of(path, schema=None):
            return pa.ipc.open_file(path).read_all()

        def new():
            folder = tmp_path / uuid.uuid4().hex
            made = target_of_files(
                folder, "suite.third_party_formats:ArrowFormat", lambda path: table_of(path).to_pylist(), table_of
            )
            made.options["rollOnCheckpoint"] = "true"
            return made

        return new


class TestSinkOnSpark(TieredSparkSinkSuite):
    connector, new_target = FileSystemConnector, TestSink.new_target
    test_a_batch_function_is_killed = by_default(
        SparkSinkSuite.test_a_batch_function_is_killed,
        "half way through publish",
        otherwise="a kill at every other step; the crashes of the suite without Spark stay",
    )
    test_a_process_is_killed = by_default(
        SparkSinkSuite.test_a_process_is_killed,
        "half way through publish",
        otherwise="a kill at every other step; the crashes of the suite without Spark stay",
    )
    # What Spark does alike with every connector.
    test_a_batch_write_that_fails = SparkSinkSuite.test_a_batch_write_that_fails
    test_batches_without_rows = SparkSinkSuite.test_batches_without_rows
    test_metrics_count_rows = SparkSinkSuite.test_metrics_count_rows
    test_text_arrives_as_it_is = SparkSinkSuite.test_text_arrives_as_it_is


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


class TestSourceOnSpark(TieredSparkSourceSuite):
    connector, golden, origin = FileSystemConnector, GOLDEN, TestSource.origin


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
