"""Rows become lines of a hidden file."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError
from penstock.sink import CommittingSinkWriter, PreparedCommit, WriterContext

__all__ = ["FilesWriter", "check_types"]

_CHECKS = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_string)


def check_types(schema: pa.Schema) -> None:
    """Raises BadConfigurationError for a column that JSON can't hold as it is."""
    for field in schema:
        if not any(check(field.type) for check in _CHECKS):
            raise BadConfigurationError(
                f"column '{field.name}' is {field.type}; booleans, numbers and texts can be written: cast it to string"
            )


def _line(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, allow_nan=False) + "\n"
    except ValueError:
        raise BadDataError(f"JSON has neither NaN nor infinity: {row!r}") from None


class FilesWriter(CommittingSinkWriter[str, None]):
    """The file is named by query, base and attempt: no other attempt has it, and it is known for garbage."""

    def __init__(self, path: str, context: WriterContext) -> None:
        self._path = path
        self._context = context
        self._name = f".{context.query_id}.{context.base}.{context.attempt_id}.jsonl"
        self._file: Any = None
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if self._file is None and batch.num_rows:
            os.makedirs(self._path, exist_ok=True)
            self._file = open(f"{self._path}/{self._name}", "w", encoding="utf-8")  # noqa: SIM115
        for row in batch.to_pylist():
            self._file.write(_line(row))
        self._rows += batch.num_rows

    def prepare_commit(self) -> PreparedCommit[str, None]:
        """Puts the file on the disk, hidden. The empty file next to it, its witness, shows later that it was there."""
        if self._file is None:
            return PreparedCommit()
        self._file.flush()
        os.fsync(self._file.fileno())
        open(f"{self._path}/{self._name}.witness", "x").close()
        self._context.metrics.add("rows_written", self._rows)
        return PreparedCommit([self._name])

    def abort(self) -> None:
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError):  # a later clean-up may have found it first
                os.unlink(f"{self._path}/{self._name}")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
