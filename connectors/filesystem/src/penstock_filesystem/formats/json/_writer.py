"""Writes JSON files: an object per line."""

from __future__ import annotations

import pyarrow as pa

from penstock.serialization.values import JsonWriter, why_not_json
from penstock_filesystem.formats._line_writer import LineWriter, value_text
from penstock_filesystem.formats._options import WriteOptions
from penstock_filesystem.formats._writer_base import unsupported

__all__ = ["JsonLinesWriter"]


class JsonLinesWriter(LineWriter):
    """Writes a JSON object per line as Spark does: no null fields, binary in base 64, NaN and infinity as strings."""

    name = "json"
    suffix = ".json"

    def __init__(self, schema: pa.Schema, options: WriteOptions) -> None:
        super().__init__(schema, options)
        self._json = JsonWriter(value_text(options), ignore_nulls=options.ignore_null_fields)

    def validate(self) -> None:
        """Raises BadConfigurationError for types that JSON has no form of."""
        for field in self.schema:
            problem = why_not_json(field.type)
            if problem:
                raise unsupported(self.name, field, problem)

    def settings(self) -> tuple[object, ...]:
        """Returns what ends a line, the patterns, and whether nulls are written."""
        # Defaults are left out: chunks of earlier releases, which knew less of this, stay fit.
        patterns = (self.options.timestamp_pattern, self.options.date_pattern)
        nulls = () if self.options.ignore_null_fields else ("nulls",)
        return (self.options.line_sep, *(pattern for pattern in patterns if pattern), *nulls)

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """Renders each row as an object."""
        return self._json.objects(batch.schema.names, batch.columns)
