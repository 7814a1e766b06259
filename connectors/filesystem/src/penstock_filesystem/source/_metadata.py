"""Metadata columns, about the file that a row came from; a schema that names them gets them."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.serialization.ddl import shown_type
from penstock_filesystem.formats import Rows, SplitState

__all__ = ["METADATA_SCHEMA", "OFFSET_COLUMN", "data_schema", "metadata_column", "validate_metadata"]

#: The column that holds where in its file a row is.
OFFSET_COLUMN = "_file_offset"

#: ``_file_offset`` is the byte at which the row starts for text, CSV and JSON, the row's number for other formats.
METADATA_SCHEMA = pa.schema(
    [
        pa.field("_file_path", pa.string()),
        pa.field("_file_name", pa.string()),
        pa.field("_file_modification_time", pa.timestamp("us", "UTC")),
        pa.field("_file_size", pa.int64()),
        pa.field(OFFSET_COLUMN, pa.int64()),
    ]
)


def data_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the columns of ``schema`` that come out of the files."""
    return pa.schema([field for field in schema if field.name not in METADATA_SCHEMA.names])


def validate_metadata(schema: pa.Schema) -> None:
    """Raises BadConfigurationError for a metadata column of another type."""
    for field in schema:
        if field.name in METADATA_SCHEMA.names and not METADATA_SCHEMA.field(field.name).type.equals(field.type):
            type_ = METADATA_SCHEMA.field(field.name).type
            raise BadConfigurationError(
                f"the metadata column {field.name} is {shown_type(type_, field.type)}, the schema says "
                f"{shown_type(field.type, type_)}"
            )


def metadata_column(field: pa.Field, rows: Rows, state: SplitState) -> pa.Array:
    """Makes one metadata column for ``rows``."""
    values = {
        "_file_path": state.url,
        "_file_name": state.path.rsplit("/", 1)[-1],
        "_file_modification_time": state.mtime_ns // 1000,
        "_file_size": state.size,
    }
    if field.name == OFFSET_COLUMN:
        return rows.offsets
    return pa.repeat(pa.scalar(values[field.name], field.type), rows.count)
