"""The conformance kit: what a connector promises, proven on the author's own system.

Installed with ``pip install 'penstock[testing]'``; runs under pytest. An author subclasses a suite and writes one
fixture for it: :class:`SinkSuite` (:mod:`penstock.testing._sink_suite`), :class:`SourceSuite`
(:mod:`penstock.testing._source_suite`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.testing._away import away
    from penstock.testing._faults import Crash, Fuse
    from penstock.testing._origin import SourceOrigin
    from penstock.testing._rows import SPARK_TYPES
    from penstock.testing._sink_engine import SinkQuery
    from penstock.testing._sink_suite import SinkSuite
    from penstock.testing._source_engine import SourceQuery
    from penstock.testing._source_suite import SourceSuite
    from penstock.testing._spark_sink_suite import SparkSinkSuite
    from penstock.testing._spark_source_suite import SparkSourceSuite
    from penstock.testing._target import SinkTarget

__all__ = [
    "SPARK_TYPES",
    "Crash",
    "Fuse",
    "SinkQuery",
    "SinkSuite",
    "SinkTarget",
    "SourceOrigin",
    "SourceQuery",
    "SourceSuite",
    "SparkSinkSuite",
    "SparkSourceSuite",
    "away",
]

_MODULES = {
    "SPARK_TYPES": "_rows",
    "Crash": "_faults",
    "Fuse": "_faults",
    "SinkQuery": "_sink_engine",
    "SinkSuite": "_sink_suite",
    "SinkTarget": "_target",
    "SourceOrigin": "_origin",
    "SourceQuery": "_source_engine",
    "SourceSuite": "_source_suite",
    "SparkSinkSuite": "_spark_sink_suite",
    "SparkSourceSuite": "_spark_source_suite",
    "away": "_away",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: pytest loads the kit's plugin from here in every run, also in one without a suite.
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute {name!r}")
