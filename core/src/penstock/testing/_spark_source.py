"""Connectors under test as Spark data sources, installed or not, and the data source that feeds sinks under test.

Classes are made at run time, so that Spark pickles them by value with what is set on them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import site
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.connector import Connector
from penstock.spark import PenstockDataSource

__all__ = ["RowsDataSource", "data_source", "put_rows", "with_its_package"]


class _DataSourceUnderTest(PenstockDataSource):
    connector_type: ClassVar[type[Connector]]

    def _load(self) -> Connector:
        return self.connector_type()


def data_source(connector: type[Connector], accumulator: Any = None) -> type[PenstockDataSource]:
    """Returns the data source ``penstock.under_test``, of a connector that need not be installed."""
    _send_with_its_module(connector)
    attributes = {
        "connector_name": "under_test",
        "connector_type": connector,
        "parallelism": 2,
        "accumulator": accumulator,
    }
    return type("UnderTest", (_DataSourceUnderTest,), attributes)


def _send_with_its_module(connector: type[Connector]) -> None:
    """Test modules can't be imported by Spark's workers: what is defined there is pickled by value."""
    for one in connector.__mro__:
        module = sys.modules.get(one.__module__)
        if module is not None and not _can_be_imported(one.__module__):
            cloudpickle.register_pickle_by_value(module)


def _can_be_imported(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


@contextlib.contextmanager
def with_its_package(context: Any, connector: type[Connector]) -> Iterator[None]:
    """Within it, what is registered with Spark is run by workers that find the package of ``connector``.

    pytest's option ``pythonpath`` makes a package that is not installed known to the tests' own process alone.
    """
    folders = (_folder_of(one.__module__) for one in connector.__mro__ if issubclass(one, Connector))
    environment: dict[str, str] = context.environment  # each registration copies it
    before = dict(environment)
    if path := [folder for folder in (*folders, before.get("PYTHONPATH")) if folder]:
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path))
    try:
        yield
    finally:
        environment.clear()
        environment.update(before)


def _folder_of(module: str) -> str | None:
    """Returns the entry of the path that ``module`` is imported from, unless every Python has it."""
    name = module.partition(".")[0]
    spec = importlib.util.find_spec(name) if name != "penstock" and _can_be_imported(name) else None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent.parent if spec.submodule_search_locations else Path(spec.origin).parent
    return None if str(folder) in site.getsitepackages() else str(folder)


class _Share(InputPartition):
    def __init__(self, path: str) -> None:
        self.path = path


class RowsDataSource(DataSource):
    """A stream of given batches with given tasks: ``path`` holds a folder for each batch, by number, with a file
    for each task. Every micro-batch is one of them, and the same again after a restart.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._path = options["path"]

    @classmethod
    def name(cls) -> str:
        """Returns what goes into ``.format(...)``."""
        return "penstock.rows_under_test"

    def schema(self) -> StructType:
        """Returns the schema of the rows."""
        struct: StructType = from_arrow_schema(
            pa.ipc.read_schema(pa.py_buffer(Path(self._path, "schema").read_bytes()))
        )
        return struct

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """See Spark's class."""
        return _RowsReader(self._path)


class _RowsReader(DataSourceStreamReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def initialOffset(self) -> dict[str, Any]:
        return {"batch": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        there = sum(1 for one in Path(self._path).iterdir() if one.name.isdigit())
        return {"batch": min(start["batch"] + 1, there)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        folders = [Path(self._path, str(batch)) for batch in range(start["batch"], end["batch"])]
        return [_Share(str(path)) for folder in folders for path in sorted(folder.iterdir())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Share)
        with pa.OSFile(partition.path) as file, pa.ipc.open_stream(file) as batches:
            yield from batches


def put_rows(path: Path, number: int, schema: pa.Schema, shares: Any) -> None:
    """Adds batch ``number``, for :class:`RowsDataSource`: for each task its Arrow batches."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "schema").write_bytes(schema.serialize().to_pybytes())
    partial = path / f"partial-{number}"
    partial.mkdir()
    for writer, batches in enumerate(shares):
        with pa.OSFile(str(partial / f"{writer:04}"), "wb") as file, pa.ipc.new_stream(file, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
    partial.rename(path / str(number))
