"""Rows go into a transaction, which is then prepared: it outlives the task, and no reader sees it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError
from penstock.sink import CommittingSinkWriter, PreparedCommit, WriterContext
from penstock.testing._samples.database._options import SinkOptions
from penstock.testing._samples.database.client import Database
from penstock.testing._samples.database.sink._committable import name_of

__all__ = ["BankWriter", "check_types"]

_CHECKS = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_string)


def check_types(schema: pa.Schema) -> None:
    """Raises BadConfigurationError for a column that JSON, as which a row is kept, can't hold."""
    for field in schema:
        if not any(check(field.type) for check in _CHECKS):
            raise BadConfigurationError(
                f"column '{field.name}' is {field.type}; booleans, numbers and texts can be written: cast it to string"
            )


def _line(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row, allow_nan=False)
    except ValueError:
        raise BadDataError(f"JSON has neither NaN nor infinity: {row!r}") from None


class BankWriter(CommittingSinkWriter[str, None]):
    """The transaction is named by query, base and attempt: no other attempt has it, and it is known for garbage."""

    def __init__(self, options: SinkOptions, context: WriterContext) -> None:
        self._context = context
        self._name = name_of(context.query_id, context.base, context.attempt_id)
        self._database = Database(options.path, options.request_timeout_s)
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._database.insert(self._name, [_line(row) for row in batch.to_pylist()])
            self._rows += batch.num_rows

    def prepare_commit(self) -> PreparedCommit[str, None]:
        if not self._rows:
            return PreparedCommit()
        self._database.prepare(self._name, self._context.query_id, self._context.base)
        self._context.metrics.add("rows_written", self._rows)
        return PreparedCommit([self._name])

    def abort(self) -> None:
        self._database.roll_back(self._name)

    def close(self) -> None:
        self._database.close()
