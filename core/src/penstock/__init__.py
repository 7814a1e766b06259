"""Penstock: the connector model of Apache Flink for PySpark, exactly once end to end.

``penstock.register(spark)`` makes every installed connector available as ``.format("penstock.<name>")``.
"""

from typing import TYPE_CHECKING, Any

from penstock._version import __version__

if TYPE_CHECKING:
    from penstock._causes import explain
    from penstock.spark import (
        SinkGroup,
        batch_writer,
        enrich,
        enrich_async,
        export_metrics,
        register,
        replay,
        serve_metrics,
    )

__all__ = [
    "SinkGroup",
    "__version__",
    "batch_writer",
    "enrich",
    "enrich_async",
    "explain",
    "export_metrics",
    "register",
    "replay",
    "serve_metrics",
]


_OF_SPARK = (
    "SinkGroup",
    "batch_writer",
    "enrich",
    "enrich_async",
    "export_metrics",
    "register",
    "replay",
    "serve_metrics",
)


def __getattr__(name: str) -> Any:
    # Loaded on first use: connectors import penstock in processes that never need pyspark.
    if name in _OF_SPARK:
        from penstock import spark

        return getattr(spark, name)
    if name == "explain":
        from penstock._causes import explain

        return explain
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
