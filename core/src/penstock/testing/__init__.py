"""The conformance kit: what a connector promises, proven on the author's own system.

Installed with ``pip install 'penstock[testing]'``; runs under pytest. An author subclasses a suite and writes one
fixture for it: :class:`SinkSuite` (:mod:`penstock.testing.sink_suite`), :class:`SourceSuite`
(:mod:`penstock.testing.source_suite`).
"""

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
