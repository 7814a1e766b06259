"""What a run needs, looked at before Spark starts: Spark says little of what it lacks, and late."""

from __future__ import annotations

import os

from penstock.cli._doctor import java_problem
from penstock.cli._pipeline import Pipeline
from penstock.error_codes import NO_JAVA
from penstock.errors import BadConfigurationError
from penstock.storage import has_scheme, open_storage

__all__ = ["check_before_start"]


def check_before_start(pipeline: Pipeline) -> None:
    """Raises BadConfigurationError without a Java that Spark runs on, and for a path in a store whose address is wrong
    or whose package is not installed. Connects to nothing.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ and (problem := java_problem()):
        raise BadConfigurationError(f"Spark can't start: {problem}", error_code=NO_JAVA)
    if pipeline.checkpoint and has_scheme(pipeline.checkpoint):
        open_storage(pipeline.checkpoint, pipeline.storage_options)
    for endpoint in (*pipeline.sources, *pipeline.sinks):
        path = next((text for name, text in endpoint.options.items() if name.lower() == "path"), "")
        if endpoint.is_ours and has_scheme(path):
            open_storage(path, endpoint.options)
