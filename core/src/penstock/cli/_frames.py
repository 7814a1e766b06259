"""The pipeline as a streaming DataFrame."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli._pipeline import Pipeline, PythonEntry, SourceSpec
from penstock.errors import BadConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["build_frame"]


def build_frame(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """Returns what the sink is given. Each source becomes a temporary view on the way."""
    return _transformed(spark, pipeline, {source.view: _read(spark, source) for source in pipeline.sources})


def _read(spark: SparkSession, source: SourceSpec) -> DataFrame:
    reader = spark.readStream.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    frame = reader.load()
    if source.watermark is not None:
        frame = frame.withWatermark(source.watermark.column, source.watermark.delay)
    frame.createOrReplaceTempView(source.view)
    return frame


def _transformed(spark: SparkSession, pipeline: Pipeline, sources: dict[str, DataFrame]) -> DataFrame:
    if pipeline.sql is not None:
        return spark.sql(pipeline.sql)
    if pipeline.python is None:
        return next(iter(sources.values()))
    frame = _load(spark, pipeline.python, pipeline.path.resolve().parent)(spark, sources)
    if not hasattr(frame, "writeStream"):
        raise BadConfigurationError(
            f"{pipeline.python.function}() returned {type(frame).__name__}, it must return a DataFrame"
        )
    return frame


def _load(spark: SparkSession, entry: PythonEntry, directory: Path) -> Any:
    """Returns the entry point's function. Its module is importable in the workers too, so that it may define UDFs."""
    if entry.file is not None:
        sys.path.insert(0, str(entry.file.parent))
        spark.sparkContext.addPyFile(str(entry.file))
    else:
        sys.path.insert(0, str(directory))
    return getattr(importlib.import_module(entry.module), entry.function)
