"""Connections, names and types."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError, FatalError, RetriableError

#: What SQLite calls a column's affinity, and what it is in Arrow.
_TYPES = {"INT": pa.int64(), "CHAR": pa.string(), "TEXT": pa.string(), "REAL": pa.float64(), "FLOA": pa.float64()}
_TYPES |= {"DOUB": pa.float64(), "BLOB": pa.binary()}


_STORED = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_binary, pa.types.is_boolean)


#: How long a statement waits while another process writes (s).
WAIT_S = 60.0


def connect(path: str) -> sqlite3.Connection:
    """Waits for a minute while another process writes. ``with`` it, statements are one transaction."""
    return sqlite3.connect(path, timeout=WAIT_S)


def quoted(name: str) -> str:
    """``name`` as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def table_schema(path: str, table: str) -> pa.Schema:
    """The table's columns. Raises BadConfigurationError if it is not there."""
    opened = connect(path)
    try:
        with errors():
            columns = opened.execute("select name, type from pragma_table_info(?)", [table]).fetchall()
    finally:
        opened.close()
    if not columns:
        raise BadConfigurationError(f"{path} has no table '{table}'")
    return pa.schema([(name, _arrow_type(kind)) for name, kind in columns])


def check_columns(path: str, table: str, schema: pa.Schema) -> None:
    """Raises BadConfigurationError for a column that the table has not, or of a type that SQLite does not store."""
    there = table_schema(path, table).names
    for field in schema:
        if field.name not in there:
            raise BadConfigurationError(f"table '{table}' has no column '{field.name}': it has {', '.join(there)}")
        if not any(fits(field.type) for fits in _STORED):
            raise BadConfigurationError(
                f"column '{field.name}' is of type {field.type}, which SQLite does not store: cast it, say to string"
            )


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """SQLite's errors as Penstock's."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise RetriableError(f"SQLite: {error}") from error
        raise FatalError(f"SQLite: {error}") from error
    except (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, OverflowError) as error:
        raise BadDataError(f"a row can't be written: {error}") from error


def _arrow_type(declared: str) -> pa.DataType:
    return next((kind for part, kind in _TYPES.items() if part in declared.upper()), pa.string())
