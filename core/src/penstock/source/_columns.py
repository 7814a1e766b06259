"""Checks of the schema that a user gives for a source whose columns are fixed."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.errors import BadConfigurationError

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
            raise BadConfigurationError(f"the schema has '{field.name}' as {field.type}, and it is {wanted}")
