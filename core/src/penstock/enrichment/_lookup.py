"""The contract of a lookup by key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa

__all__ = ["TableLookup"]


class TableLookup(ABC):
    """Finds rows of a table by key. Made on the driver, pickled to the tasks; connects in either.

    A key may have no rows, one, or several. Rows with a key that has none get nulls, or are left out if ``inner``.
    """

    inner: bool = False

    @property
    @abstractmethod
    def key_columns(self) -> Sequence[str]:
        """The columns of the rows that are the key."""

    @abstractmethod
    def result_schema(self) -> pa.Schema:
        """Returns the columns that are added. Driver; may ask the table. Raises BadConfigurationError for what does not
        fit.
        """

    @abstractmethod
    def look_up(self, keys: pa.RecordBatch) -> pa.ListArray:
        """Returns for each row of ``keys`` (columns ``key_columns``) a list of structs with ``result_schema``'s fields.

        In a task; raises RetriableError when the table can't be asked, which fails the task.
        """
