"""Spares Spark's Python workers a long look at everything that is loaded, after every task."""

from __future__ import annotations

import gc
import sys

__all__ = ["freeze_modules"]

#: What is loaded late, the first write after the first read, is there by then.
_LAST_USE_TO_FREEZE = 5

_uses = 0


def freeze_modules() -> None:
    """Keeps loaded modules out of garbage collection. Called first in Python workers: in tasks and in planning.

    PySpark's daemon has each worker collect its garbage after each use, and again after the next: a look at some
    hundred thousand objects of modules, which takes longer than a small batch. What is loaded is left out from the
    second use on (:func:`gc.freeze`), when a collection has just been: it is still freed when nothing refers to it any
    more, but not if it refers to itself. Nothing is done in other processes, such as the user's own.
    """
    global _uses
    _uses += 1
    if 1 < _uses <= _LAST_USE_TO_FREEZE and _is_spark_worker():
        gc.freeze()


def _is_spark_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == "pyspark.daemon"
