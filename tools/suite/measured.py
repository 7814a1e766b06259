"""Imported when a Python process starts whose coverage is to be measured (see ``cover.py``).

What was measured is written when the process ends, however Python ends it, and in Spark's workers after every task:
Spark ends those with a signal.
"""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

import coverage


class _Measurement:
    """Of this process; of a child of its own after a fork."""

    def __init__(self) -> None:
        self._start()
        os.register_at_fork(after_in_child=self._start)
        atexit.register(self.save)

    def _start(self) -> None:
        if (outer := coverage.Coverage.current()) is not None:
            outer.stop()
        self._coverage = coverage.Coverage(config_file=os.environ["SUITE_COVER"], data_suffix=True)
        self._coverage.start()

    def save(self) -> None:
        """Writes it down, and goes on."""
        self._coverage.stop()
        self._coverage.save()
        self._coverage.start()


class _SavingLoader(importlib.abc.Loader):
    """Loads one of Spark's worker modules, whose ``main`` is called for each task.

    A worker that is started by ``python -m`` asks for the code alone, the inner loader's: it ends after a task.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        work = getattr(module, "main", None)
        if work is not None:

            def main(*args: Any, **kwargs: Any) -> Any:
                try:
                    return work(*args, **kwargs)
                finally:
                    measurement.save()

            module.main = main  # type: ignore[attr-defined]


class _Finder(importlib.abc.MetaPathFinder):
    """Finds Spark's worker modules, once each."""

    _PREFIXES = ("pyspark.worker", "pyspark.sql.worker.", "pyspark.sql.streaming.python_streaming")

    def __init__(self) -> None:
        self._found: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in self._found or not name.startswith(self._PREFIXES):
            return None
        self._found.add(name)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _SavingLoader(spec.loader)
        return spec


def _exit(status: int) -> NoReturn:
    measurement.save()
    _leave(status)


measurement = _Measurement()
_leave = os._exit
os._exit = _exit
sys.meta_path.insert(0, _Finder())
