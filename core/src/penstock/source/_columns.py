"""Checks of the schema that a user gives for a source whose columns are fixed."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.serialization.ddl import shown_type

__all__ = ["check_columns"]


def check_columns(schema: pa.Schema, expected: pa.Schema, switches: Mapping[str, str] | None = None) -> None:
    """Raises BadConfigurationError unless every column of ``schema`` is one of ``expected``, of its type.

    ``switches``: columns that are there only if an option is true, with the option's name.
    """
    for field in schema:
        if field.name not in expected.names:
            option = (switches or {}).get(field.name)
            hint = f" (set {option} to true)" if option else ""
            raise BadConfigurationError(
                f"the schema has a column '{field.name}'{hint}; there are {', '.join(expected.names)}"
            )
        wanted = expected.field(field.name).type
        if field.type != wanted:
            raise BadConfigurationError(
                f"the schema has '{field.name}' as {shown_type(field.type, wanted)}, and it is "
                f"{shown_type(wanted, field.type)}"
            )
