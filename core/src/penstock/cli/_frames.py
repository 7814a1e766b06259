"""The views of a pipeline, as DataFrames of a session."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli._pipeline import Pipeline, PythonEntry, SourceSpec, ViewSpec
from penstock.errors import BadConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Views"]


class Views:
    """The sources and views of a pipeline, each a temporary view of the session."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._functions: dict[str, Callable[..., Any]] = {}
        self.frames = {source.view: _read(spark, source) for source in pipeline.sources}
        for view in pipeline.views:
            if view.python is not None:
                self._functions[view.name] = _load(spark, view.python, pipeline.path.resolve().parent)
            self.frames[view.name] = self._made(spark, view, self.frames)

    def frame(self, name: str) -> DataFrame:
        """Returns a source or a view; Spark compares names without regard to case, and so does this."""
        return next(frame for one, frame in self.frames.items() if one.lower() == name.lower())

    def again(self, base: str, rows: DataFrame, names: Iterable[str]) -> dict[str, DataFrame]:
        """Returns the views ``names``, which follow from ``base`` alone, for ``rows`` of it: a batch of a stream.

        They are views of the session that ``rows`` has, which is the query's own.
        """
        spark, wanted = rows.sparkSession, {name.lower() for name in names}
        if base:
            rows.createOrReplaceTempView(base)
        made = {base: rows}
        tables = {name: spark.table(name) for name, frame in self.frames.items() if name and not frame.isStreaming}
        for view in self._pipeline.views:
            if view.name.lower() in wanted:
                made[view.name] = self._made(spark, view, {**tables, **made})
        return made

    def _made(self, spark: SparkSession, view: ViewSpec, above: dict[str, DataFrame]) -> DataFrame:
        if view.sql is not None:
            frame = spark.sql(view.sql)
        else:
            frame = self._functions[view.name](spark, dict(above))
            if not hasattr(frame, "isStreaming"):
                assert view.python is not None
                raise BadConfigurationError(
                    f"{view.python.function}() returned {type(frame).__name__}, it must return a DataFrame"
                )
        if view.watermark is not None:
            frame = frame.withWatermark(view.watermark.column, view.watermark.delay)
        return _as_view(spark, view.name, frame)


def _read(spark: SparkSession, source: SourceSpec) -> DataFrame:
    reader = spark.read if source.is_batch else spark.readStream
    if source.schema is not None:
        reader = reader.schema(source.schema)
    frame = reader.format(source.format).options(**source.options).load()
    if source.flatten:
        frame = _flattened(frame, [name for name, _ in source.flatten])
    if source.select:
        frame = frame.selectExpr(*(expression for expression, _ in source.select))
    if source.watermark is not None:
        frame = frame.withWatermark(source.watermark.column, source.watermark.delay)
    return _as_view(spark, source.view, frame)


def _flattened(frame: DataFrame, names: Iterable[str]) -> DataFrame:
    """Returns the frame with the fields of the structs ``names`` in their places."""
    from pyspark.sql.functions import col
    from pyspark.sql.types import StructType

    known = {field.name.lower(): field for field in frame.schema}
    structs = {name.strip().lower() for name in names}
    for name in structs:
        if name not in known or not isinstance(known[name].dataType, StructType):
            raise BadConfigurationError(f"flatten: '{name}' is no struct column; there are: {', '.join(frame.columns)}")
    paths = [
        path
        for name, field in known.items()
        for path in ([(field.name, one) for one in field.dataType.names] if name in structs else [(field.name,)])
    ]
    last = [path[-1].lower() for path in paths]
    if twice := next((name for name in last if last.count(name) > 1), None):
        raise BadConfigurationError(f"flatten: two columns would be called '{twice}': use 'select', and rename one")
    return frame.select(*(col(".".join(f"`{_quoted(part)}`" for part in path)) for path in paths))


def _quoted(name: str) -> str:
    return name.replace("`", "``")


def _as_view(spark: SparkSession, name: str, frame: DataFrame) -> DataFrame:
    """Returns the frame under its name, also in the plans of what is made of it."""
    if not name:
        return frame
    frame.createOrReplaceTempView(name)
    return spark.table(name)


def _load(spark: SparkSession, entry: PythonEntry, directory: Path) -> Any:
    """Returns the entry point's function. Its module is importable in the workers too, so that it may define UDFs."""
    if entry.file is not None:
        sys.path.insert(0, str(entry.file.parent))
        spark.sparkContext.addPyFile(str(entry.file))
    else:
        sys.path.insert(0, str(directory))
    return getattr(importlib.import_module(entry.module), entry.function)
