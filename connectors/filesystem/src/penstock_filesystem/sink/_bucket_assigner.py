"""The contract of a bucket assigner."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

__all__ = ["BucketAssigner"]


class BucketAssigner(ABC):
    """Says for each row of a batch its bucket: a relative path, ``""`` for the base path itself.

    Pickled to the tasks: holds configuration only.
    """

    @abstractmethod
    def bucket_ids(self, batch: pa.RecordBatch, now_ms: int) -> pa.Array | str:
        """One string per row, or a plain string if all rows go to the same bucket. ``now_ms``: the time of writing."""

    def columns_left_out(self) -> tuple[str, ...]:
        """Columns that the bucket's name holds, and the files therefore don't."""
        return ()

    def validate(self, schema: pa.Schema) -> None:  # noqa: B027 - nothing to check is a fine default
        """Raises BadConfigurationError if rows of ``schema`` can't be assigned."""
