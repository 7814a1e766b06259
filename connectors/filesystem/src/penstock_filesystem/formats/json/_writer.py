"""Writes JSON files: an object per line."""

from __future__ import annotations

import pyarrow as pa

from penstock.serialization.values import JsonWriter, is_plain, is_text
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
            self._validate(field, field.type)

    def _validate(self, field: pa.Field, type_: pa.DataType) -> None:
        if pa.types.is_struct(type_):
            for index in range(type_.num_fields):
                self._validate(field, type_.field(index).type)
        elif pa.types.is_map(type_):
            if not is_text(type_.key_type):
                raise unsupported(self.name, field, "keys of a map must be strings")
            self._validate(field, type_.item_type)
        elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
            self._validate(field, type_.value_type)
        elif not (is_plain(type_) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_)):
            raise unsupported(self.name, field, "cast it to string")

    def settings(self) -> tuple[object, ...]:
        """Returns what ends a line, the patterns, and whether nulls are written."""
        # Defaults are left out: chunks of earlier releases, which knew less of this, stay fit.
        patterns = (self.options.timestamp_pattern, self.options.date_pattern)
        nulls = () if self.options.ignore_null_fields else ("nulls",)
        return (self.options.line_sep, *(pattern for pattern in patterns if pattern), *nulls)

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """Renders each row as an object."""
        return self._json.objects(batch.schema.names, batch.columns)
