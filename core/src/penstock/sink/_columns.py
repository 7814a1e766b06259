"""What a sink says about the columns of the rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.dead_letters import is_letter_type
from penstock.errors import BadConfigurationError
from penstock.options import warn_once
from penstock.serialization.ddl import shown_type

__all__ = ["check_bytes_or_text", "warn_about_left_out"]


def check_bytes_or_text(field: pa.Field, option: str) -> None:
    """Raises BadConfigurationError unless the values of a column are bytes as they are. ``option`` sets a format."""
    kind = field.type
    if not (_is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise BadConfigurationError(
            f"column '{field.name}' is of type {shown_type(kind)}: it must be string or binary, or be written in "
            f"a format (option '{option}', for example json)"
        )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def warn_about_left_out(system: str, columns: Sequence[pa.Field], hint: str) -> None:
    """Says once which columns are not written to ``system``, if any. ``hint``: a sentence about those that are.

    Raises BadConfigurationError for a column with dead letters, which would be lost.
    """
    for field in columns:
        if is_letter_type(field.type):
            raise BadConfigurationError(
                f"column '{field.name}' holds dead letters, and {system} has no such column: set deadLetters.format "
                f"and its options to keep them, or .drop('{field.name}')"
            )
    if columns:
        names = ", ".join(field.name for field in columns)
        warn_once(f"not written to {system}: column{'s' * (len(columns) > 1)} {names}. {hint}")
