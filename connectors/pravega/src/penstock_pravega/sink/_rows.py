"""Rows of a query as events and routing keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError, BadDataError
from penstock.options import load_object
from penstock.serialization.ddl import shown_type
from penstock.serialization.formats import RecordEncoder
from penstock.sink import WriterContext, check_bytes_or_text, convert_refusing, warn_about_left_out
from penstock_pravega.client import LARGEST_EVENT
from penstock_pravega.options import SinkOptions

__all__ = ["EventColumns", "check_schema"]

#: What the source gives in addition: where an event was read, which is not part of one that is written.
_OF_THE_SOURCE = ("stream", "segment", "offset", "position")


def check_schema(schema: pa.Schema, options: SinkOptions) -> None:
    """Raises :class:`BadConfigurationError` if rows of ``schema`` can't become events. Warns of columns that no event
    has.
    """
    columns = {field.name.lower(): field for field in schema}
    value = columns.get("value")
    if value is None:
        raise BadConfigurationError(
            f"a column 'value' is needed to write to Pravega; there are: {', '.join(schema.names)}"
        )
    if options.format.is_raw:
        check_bytes_or_text(value, "value.format")
    key = columns.get(options.key_column.lower())
    if key is None and options.key_column_is_needed:
        raise BadConfigurationError(
            f"option 'routingKey': there is no column '{options.key_column}'; there are: {', '.join(schema.names)}"
        )
    if key is not None and options.key_function is None and not _is_text(key.type):
        raise BadConfigurationError(
            f"column '{key.name}' holds routing keys and is of type {shown_type(key.type)}: cast it to string"
        )
    used = {"value", options.key_column.lower(), *_OF_THE_SOURCE}
    if options.timestamps is not None:
        options.timestamps.check(schema)
        used.add(options.timestamps.path.split(".")[0].lower())
    if options.key_function is None:  # it gets every column
        left_out = [field for name, field in columns.items() if name not in used]
        warn_about_left_out("Pravega", left_out, "An event is a value")


def _numbers(mask: pa.Array) -> list[int]:
    numbers: list[int] = pc.indices_nonzero(mask).to_pylist()
    return numbers


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


@dataclass
class EventColumns:
    """Makes events and keys out of rows; other columns are dropped. Task, single thread."""

    options: SinkOptions
    encoder: RecordEncoder | None

    def __post_init__(self) -> None:
        function = self.options.key_function
        self._key_function: Callable[[pa.RecordBatch], Any] | None = None
        if function is not None:
            self._key_function = load_object("option 'routingKey'", function)

    def convert(
        self, batch: pa.RecordBatch, context: WriterContext
    ) -> tuple[pa.RecordBatch, pa.Array, pa.Array | None]:
        """Returns the rows that become events, the events (large_binary, without nulls) and their keys (string), if
        they have any.

        A row whose value is null, can't be encoded or is larger than 8 MiB, which Pravega's clients could not read,
        becomes a dead letter; without those, it raises BadDataError.
        """
        batch, values = convert_refusing(context, batch, self._values, self._letter_fields)
        lengths = pc.binary_length(values)
        reasons = dict.fromkeys(_numbers(values.is_null()), "it has no value (it is null), and an event has one")
        for row in _numbers(pc.greater(lengths, LARGEST_EVENT)):
            reasons[row] = f"it has a value of {lengths[row]} bytes: an event has at most {LARGEST_EVENT}"
        if reasons and context.refused is None:
            row = min(reasons)
            raise BadDataError(f"row {row} of a batch: {reasons[row]}. Leave such rows out")
        if reasons:
            batch = context.refuse(batch, reasons, self._letter_fields)
            values = self._values(batch)
        columns = {name.lower(): batch.column(at) for at, name in enumerate(batch.schema.names)}
        return batch, values, self._keys(batch, columns.get(self.options.key_column.lower()))

    def _values(self, batch: pa.RecordBatch) -> pa.Array:
        values = next(batch.column(at) for at, name in enumerate(batch.schema.names) if name.lower() == "value")
        return (values if self.encoder is None else self.encoder.encode(values)).cast(pa.large_binary())

    def _letter_fields(self, batch: pa.RecordBatch) -> dict[str, Any]:
        """Returns what the letters of refused rows say: the event as it was to be, unless a format encodes it."""
        columns = {name.lower(): batch.column(at) for at, name in enumerate(batch.schema.names)}
        fields: dict[str, Any] = {"source": self.options.stream}
        if self.encoder is None:
            fields["value"] = columns["value"].cast(pa.binary())
        key = columns.get(self.options.key_column.lower())
        if key is not None and self._key_function is None:
            fields["key"] = key.cast(pa.binary())
        return fields

    def latest_ms(self, batch: pa.RecordBatch) -> int | None:
        """Returns the latest event time, if times are to be noted and a row has one."""
        if self.options.timestamps is None:
            return None
        latest = pc.max(self.options.timestamps.timestamps(batch)).as_py()
        return None if latest is None else int(latest)

    def _keys(self, batch: pa.RecordBatch, column: pa.Array | None) -> pa.Array | None:
        if self._key_function is None:
            return None if column is None else column.cast(pa.string())
        keys = self._key_function(batch)
        if not isinstance(keys, pa.Array) or len(keys) != batch.num_rows or not _is_text(keys.type):
            raise BadDataError(
                f"option 'routingKey': {self.options.key_function} must return an Arrow array of strings, one for each "
                "row"
            )
        return keys.cast(pa.string())
