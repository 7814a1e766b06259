"""Which Python the session's workers run."""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["classic_context", "run_this_python"]


def classic_context(spark: SparkSession) -> Any:
    """Returns the SparkContext, ``None`` over Spark Connect."""
    try:
        return spark.sparkContext
    except Exception:  # each client says no in its own way
        return None


def run_this_python(context: Any) -> None:
    """On a local master, workers run this Python unless ``PYSPARK_PYTHON`` names another.

    Spark's own default is the ``python3`` of the search path, which has no Penstock where a script is run by the Python
    of a virtual environment that is not activated.
    """
    if context is not None and context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
