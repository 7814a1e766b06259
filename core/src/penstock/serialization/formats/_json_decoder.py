"""JSON records to a struct column: whole batches by Arrow's parser, the rows around one that does not fit in Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization.formats._rows import Misfit, PartwiseDecoder, RowErrors, shown
from penstock.serialization.values import (
    NOT_JSON,
    JsonColumns,
    TimeParser,
    ValueConverter,
    json_decoder,
    value_converter,
)

__all__ = ["JsonDecoder", "begin_and_end_as_objects", "load_object"]

_BLANKS = " \t\r\n"


class JsonDecoder(PartwiseDecoder):
    """See :class:`RecordDecoder`. ``type_`` is a struct that has been checked."""

    def __init__(self, type_: pa.StructType, zone_name: str) -> None:
        self._type = type_
        self._times = TimeParser(zone_name)
        self._columns = JsonColumns(type_, self._times)
        self._converter: ValueConverter | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The converters are made again in the task: functions in functions can't be pickled."""
        return {**self.__dict__, "_converter": None}

    @property
    def type(self) -> pa.DataType:
        return self._type

    def _parse(self, values: pa.Array) -> pa.Array | None:
        """Returns the column, if every value is an object that fits."""
        try:
            # Arrow's parser does not look at what strings are made of: the cast does.
            texts = values.cast(pa.string())
        except pa.ArrowInvalid:
            return None
        if not begin_and_end_as_objects(texts):
            return None
        lines = pc.binary_join_element_wise(texts, "\n", "")
        return self._columns.parse(lines.buffers()[2], len(values)) if len(values) else None

    def _parse_rows(self, values: pa.Array, first: int, errors: RowErrors) -> pa.Array:
        # Row by row in Python: the few rows around one that does not fit, and types that Arrow's parser cannot read
        # (maps, binary).
        if self._converter is None:
            self._converter = value_converter(self._type, self._times, _refuse)
        rows: list[Any] = []
        for row, value in enumerate(values.to_pylist(), first):
            try:
                rows.append(self._converter(load_object(value), ""))
            except Misfit as misfit:
                rows.append(None)
                errors.add(row, str(misfit))
        return pa.array(rows, self._type)


def begin_and_end_as_objects(texts: pa.Array) -> bool:
    """Returns whether every text begins with { and ends with }, except for blanks."""

    def holds(texts: pa.Array) -> bool:
        return bool(pc.all(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))).as_py())

    return holds(texts) or holds(pc.ascii_trim(texts, _BLANKS))


_DECODER = json_decoder()


def _refuse(reason: str) -> None:
    raise Misfit(reason)


def load_object(value: bytes) -> dict[str, Any]:
    """Returns the object in ``value``, as :func:`json_decoder` parses it. Raises Misfit for anything else."""
    try:
        parsed = _DECODER.decode(value.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Misfit(f"not UTF-8: {shown(error)}") from None
    except NOT_JSON as error:
        raise Misfit(f"not JSON: {shown(error)}") from None
    if not isinstance(parsed, dict):
        raise Misfit(f"not a JSON object but {shown(value.decode('utf-8'))}")
    return parsed
