"""Flows of Spark's Declarative Pipelines: what a sink knows of them by the checkpoint that Spark gives it.

A flow's checkpoint is ``<storage>/_checkpoints/<target>/<flow>/<version>``. A full refresh begins the next version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.checkpoint import SparkLog
from penstock.errors import BadConfigurationError
from penstock.options import OptionValues
from penstock.retry import RetryPolicy
from penstock.storage import open_storage

__all__ = ["FlowCheckpoint"]

_LAYOUT = re.compile(r"(.+/_checkpoints/.+/[^/]+)/(0|[1-9]\d{0,8})/?")


@dataclass(frozen=True)
class FlowCheckpoint:
    """A checkpoint of a flow. ``folder`` is where its versions are."""

    folder: str
    version: int

    @classmethod
    def of(cls, checkpoint: str) -> FlowCheckpoint | None:
        """Returns what ``checkpoint`` is if a pipeline runs the query; ``None`` for one of any other query."""
        found = _LAYOUT.fullmatch(checkpoint)
        return cls(found[1], int(found[2])) if found else None

    def check_refresh(self, owner: str, options: OptionValues, retry: RetryPolicy) -> None:
        """Raises BadConfigurationError if a full refresh would write again what an earlier version may have written.

        ``owner`` is the sink, as in "sink penstock.kafka". Lists the earlier versions; driver.
        """
        for version in reversed(range(self.version)):
            old, new = f"{self.folder}/{version}", f"{self.folder}/{self.version}"
            storage, path = open_storage(old, options, retry)
            if SparkLog(storage, path).last("offsets") >= 0:
                raise BadConfigurationError(
                    f"{owner}: a full refresh would write every row a second time, and Spark does not empty a sink. "
                    f"Run penstock finish {old}, empty the target and delete {old}; or delete {new} to go back to the "
                    "state without the refresh"
                )
