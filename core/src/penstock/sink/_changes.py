"""Rows that are changes of a table: which columns are the key, the operation and the position, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError, BadDataError
from penstock.options import OptionValues, nearest_hint
from penstock.serialization.ddl import shown_type
from penstock.serialization.values import is_text

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ChangeColumns", "check_not_null"]

#: As Debezium writes them: a row that was created, updated, or read by a snapshot is there; a deleted one is not.
_WRITES = pa.array(["c", "u", "r"])
_NEW_ROWS = pa.array(["c", "r"])
_DELETE = "d"
#: Before the name of a column whose value the database did not send; names of old values begin otherwise.
_NEW, _OLD = "after.", "before."
_WHY = {
    "t": "says that the table was truncated, which no sink can do key by key: empty the target yourself, and leave "
    "such rows out",
    "m": "is a message, which is no change of a row: leave such rows out",
}


@dataclass(frozen=True)
class ChangeColumns:
    """The columns that the options ``keyColumns``, ``operationColumn``, ``orderColumn`` and ``unavailableColumn`` name;
    empty for those that are not set. Picklable. Driver and tasks.
    """

    keys: tuple[str, ...] = ()
    operation: str = ""
    order: str = ""
    unavailable: str = ""

    @classmethod
    def from_values(cls, values: OptionValues) -> Self:
        """Returns what the options say. A connector may lack some of them."""
        keys = tuple(name.strip() for name in (values.get("keyColumns") or "").split(",") if name.strip())
        others = ("operationColumn", "orderColumn", "unavailableColumn")
        return cls(keys, *(values.get(name) or "" for name in others))

    def check_schema(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError for a column that is not there, has two roles, or is of a type that can't be."""
        named = [("keyColumns", name) for name in self.keys]
        others = {
            "operationColumn": self.operation,
            "orderColumn": self.order,
            "unavailableColumn": self.unavailable,
        }
        named += [(option, name) for option, name in others.items() if name]
        roles: dict[str, str] = {}
        for option, name in named:
            if schema.get_field_index(name) < 0:
                near = nearest_hint(name, schema.names) or f"; there are: {', '.join(schema.names)}"
                raise BadConfigurationError(f"option '{option}': the rows have no column '{name}'{near}")
            if name in roles:
                also = f", and '{roles[name]}' names it too" if roles[name] != option else " twice"
                raise BadConfigurationError(f"option '{option}' names the column '{name}'{also}")
            roles[name] = option
            _check_type(option, schema.field(name))

    def check_rows(self, batch: pa.RecordBatch) -> None:
        """Raises BadDataError for a null in a key or a position, and as :meth:`unavailable_in` does."""
        check_not_null(batch, self.keys, "key column")
        if self.order:
            check_not_null(batch, (self.order,), "order column")
        self.deletes(batch)
        self.unavailable_in(batch)

    def deletes(self, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        """Returns which rows are deleted; ``None`` without a column of operations.

        Raises BadDataError for an operation that is neither ``c``, ``u`` or ``r`` nor ``d``.
        """
        if not self.operation:
            return None
        operations = batch.column(self.operation)
        gone = pc.fill_null(pc.equal(operations, pa.scalar(_DELETE, operations.type)), False)
        odd = pc.invert(pc.or_(gone, pc.is_in(operations, _WRITES.cast(operations.type))))
        if pc.any(odd).as_py():
            row = pc.index(odd, True).as_py()
            raise BadDataError(
                f"column '{self.operation}': {_why_odd(operations[row].as_py())} ({excerpt(batch, row)})"
            )
        return gone

    def unavailable_in(self, batch: pa.RecordBatch) -> dict[str, pa.BooleanArray]:
        """Returns, for each column that lacks a value in ``batch``, in which rows it does.

        Names are as the format ``debezium`` writes them (``after.note``), or plain; old values do not count, nor those
        of rows that are deleted. Raises BadDataError for a name that is no column of the rows, or one of the key; and
        for a row that is new: nothing has the value that it lacks. A database sends such a row where a key was changed.
        """
        names = batch.column(self.unavailable) if self.unavailable else None
        if names is None or not len(names.flatten()):
            return {}
        gone = self.deletes(batch)
        rows, flat = pc.list_parent_indices(names), names.flatten()
        counts = pc.and_(flat.is_valid(), pc.invert(pc.starts_with(flat, pattern=_OLD)))
        if gone is not None:
            counts = pc.and_(counts, pc.invert(gone.take(rows)))
        rows, flat = rows.filter(counts), pc.replace_substring_regex(flat.filter(counts), f"^{_NEW}", "")
        self._check_are_not_new(batch, rows, flat)
        numbers = pa.array(range(batch.num_rows), rows.type)
        found = {}
        for name in pc.unique(flat).to_pylist():
            lacking = rows.filter(pc.equal(flat, name))
            if name in self.keys or batch.schema.get_field_index(name) < 0:
                why = "is of the key" if name in self.keys else "is no column of the rows: select it under this name"
                row = lacking[0].as_py()
                raise BadDataError(f"column '{self.unavailable}' names '{name}', which {why} ({excerpt(batch, row)})")
            found[name] = pc.is_in(numbers, lacking)
        return found

    def _check_are_not_new(self, batch: pa.RecordBatch, rows: pa.Array, names: pa.Array) -> None:
        if not self.operation:
            return
        operations = batch.column(self.operation).take(rows)
        new = pc.is_in(operations, _NEW_ROWS.cast(operations.type))
        if pc.any(new).as_py():
            at = pc.index(new, True).as_py()
            raise BadDataError(
                f"column '{self.unavailable}' names '{names[at].as_py()}' of a row that is new: nothing has its value. "
                "A database sends such a row where a key was changed, unless it sends old rows in full (PostgreSQL: "
                f"replica identity full). Then take a new snapshot ({excerpt(batch, rows[at].as_py())})"
            )


def check_not_null(batch: pa.RecordBatch, names: Sequence[str], what: str) -> None:
    """Raises BadDataError that names the first row with a null in one of the columns ``names``; ``what`` they are."""
    for name in names:
        column = batch.column(name)
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise BadDataError(
                f"{what} '{name}' is null in row {row} of a batch: {excerpt(batch, row)}. Leave such rows out"
            )


def excerpt(batch: pa.RecordBatch, row: int) -> str:
    """Returns a row in words, its first 200 characters."""
    values: dict[str, Any] = batch.slice(row, 1).to_pylist()[0]
    text = str(values)
    return text if len(text) <= 200 else text[:200] + "…"


def _check_type(option: str, field: pa.Field) -> None:
    kind, types = field.type, pa.types
    if option == "operationColumn" and not is_text(kind):
        raise BadConfigurationError(
            f"option '{option}': column '{field.name}' is of type {shown_type(kind)}: it must be string"
        )
    if option == "unavailableColumn" and not (types.is_list(kind) and is_text(kind.value_type)):
        raise BadConfigurationError(
            f"option '{option}': column '{field.name}' is of type {shown_type(kind)}: it must be array<string>"
        )
    if option in ("keyColumns", "orderColumn") and types.is_nested(kind):
        raise BadConfigurationError(
            f"option '{option}': column '{field.name}' is of type {shown_type(kind)}: not comparable"
        )


def _why_odd(operation: str | None) -> str:
    if operation is None:
        return "null is no operation: leave out tombstones and marks of transactions"
    shown = operation if len(operation) <= 50 else operation[:50] + "…"
    return f"'{shown}' {_WHY.get(operation, 'is none of c, u, r (the row is there) and d (it is deleted)')}"
