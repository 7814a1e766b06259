"""Writes text files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.serialization.ddl import shown_type
from penstock.serialization.values import is_text
from penstock_filesystem.formats._line_writer import LineWriter

__all__ = ["TextWriter"]


class TextWriter(LineWriter):
    """Writes one string column, a line each; null is an empty line, as Spark writes it."""

    name = "text"
    suffix = ".txt"

    def validate(self) -> None:
        """Raises BadConfigurationError if there is more than a string column."""
        if len(self.schema) != 1 or not is_text(self.schema.field(0).type):
            columns = ", ".join(f"{field.name} {shown_type(field.type)}" for field in self.schema)
            raise BadConfigurationError(
                f"format text takes exactly one string column, there are: {columns}; select one, or use csv or json"
            )

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """Renders null as an empty line."""
        return pc.fill_null(batch.column(0).cast(pa.string()), "")

    def settings(self) -> tuple[object, ...]:
        """Returns what ends a line."""
        return (self.options.line_sep,)
