"""Columns with one value for many rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["ConstantColumns"]


class ConstantColumns:
    """Builds each column once, and slices it for as long as the value stays. One thread.

    Memory: as many rows of each as its longest batch had.
    """

    def __init__(self) -> None:
        self._built: dict[str, tuple[Any, pa.Array]] = {}  # a null may be a value

    def column(self, name: str, value: Any, type_: pa.DataType, rows: int) -> pa.Array:
        """Returns ``rows`` times ``value``."""
        known, array = self._built.get(name, (None, None))
        if array is None or known != value or len(array) < rows:
            array = pa.repeat(pa.scalar(value, type_), rows)
            self._built[name] = (value, array)
        return array.slice(0, rows)
