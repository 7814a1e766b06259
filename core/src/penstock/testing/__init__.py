"""The conformance kit: what a connector promises, proven on the author's own system.

Installed with ``pip install 'penstock[testing]'``; runs under pytest. An author subclasses a suite and writes one
fixture for it: :class:`SinkSuite` (:mod:`penstock.testing.sink_suite`), :class:`SourceSuite`
(:mod:`penstock.testing.source_suite`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.testing.faults import Crash, Fuse
    from penstock.testing.origin import SourceOrigin
    from penstock.testing.sink_engine import SinkQuery
    from penstock.testing.sink_suite import SinkSuite
    from penstock.testing.source_engine import SourceQuery
    from penstock.testing.source_suite import SourceSuite
    from penstock.testing.spark_sink_suite import SparkSinkSuite
    from penstock.testing.spark_source_suite import SparkSourceSuite
    from penstock.testing.target import SinkTarget

__all__ = [
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
]

_MODULES = {
    "Crash": "faults",
    "Fuse": "faults",
    "SinkQuery": "sink_engine",
    "SinkSuite": "sink_suite",
    "SinkTarget": "target",
    "SourceOrigin": "origin",
    "SourceQuery": "source_engine",
    "SourceSuite": "source_suite",
    "SparkSinkSuite": "spark_sink_suite",
    "SparkSourceSuite": "spark_source_suite",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: pytest loads the kit's plugin from here in every run, also in one without a suite.
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute {name!r}")
