"""JSON records to a struct column: whole batches by Arrow's parser, the rows around one that does not fit in Python."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from penstock.serialization.formats._contracts import Decoded, RecordDecoder
from penstock.serialization.formats._json_values import ValueConverter, value_converter
from penstock.serialization.formats._rows import Misfit, RowErrors, by_parts, shown, with_nulls
from penstock.serialization.formats._time import IsoTimes

__all__ = ["JsonDecoder"]

#: So many rows are parsed in Python where one of them does not fit: the time of a few calls of Arrow's parser.
_FEW = 128
_BLANKS = " \t\r\n"


def _raw_type(type_: pa.DataType) -> pa.DataType | None:
    """The type that Arrow parses as, before :func:`_finish`; ``None`` for what its parser cannot read."""
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return pa.string()
    if pa.types.is_struct(type_):
        fields = [(field.name, _raw_type(field.type)) for field in type_]
        names = {name for name, _ in fields}
        return None if len(names) < len(fields) or any(raw is None for _, raw in fields) else pa.struct(fields)
    if pa.types.is_list(type_):
        raw = _raw_type(type_.value_type)
        return None if raw is None else pa.list_(raw)
    plain = pa.types.is_primitive(type_) or pa.types.is_string(type_) or pa.types.is_decimal128(type_)
    return type_ if plain else None


def _finish(array: pa.Array, type_: pa.DataType, times: IsoTimes) -> pa.Array:
    if pa.types.is_decimal(type_):
        # Arrow's parser takes 12345 for a decimal(5, 2), which is two digits too many: it looks before it scales.
        array.validate(full=True)
        return array
    if pa.types.is_struct(type_):
        children = [_finish(array.field(index), field.type, times) for index, field in enumerate(type_)]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())
    if pa.types.is_list(type_):
        values = _finish(array.values, type_.value_type, times)
        return pa.ListArray.from_arrays(array.offsets, values, mask=array.is_null()).cast(type_)
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return times.column(array, type_)
    return array


class JsonDecoder(RecordDecoder):
    """See :class:`RecordDecoder`. ``type_`` is a struct that has been checked."""

    def __init__(self, type_: pa.DataType, zone_name: str) -> None:
        self._type = type_
        self._raw = _raw_type(type_)
        self._zone_name = zone_name
        self._times = IsoTimes(zone_name)
        self._converter: ValueConverter | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The converters are made again in the task: functions in functions can't be pickled."""
        return {**self.__dict__, "_converter": None}

    @property
    def type(self) -> pa.DataType:
        """See the base class."""
        return self._type

    def decode(self, values: pa.Array) -> Decoded:
        """See the base class."""
        return with_nulls(values, self._decode)

    def _decode(self, values: pa.Array) -> Decoded:
        errors = RowErrors()
        column = by_parts(
            0,
            len(values),
            lambda start, stop: self._parse(values.slice(start, stop - start)),
            lambda start, stop: self._parse_rows(values.slice(start, stop - start), start, errors),
            _FEW,
        )
        return Decoded(column, errors.array(len(values)))

    def _parse(self, values: pa.Array) -> pa.Array | None:
        """The column, if every value is an object that fits."""
        if self._raw is None or not len(values):
            return None
        try:
            # Arrow's parser does not look at what strings are made of: the cast does.
            texts = values.cast(pa.string())
            if not _begin_and_end_as_objects(texts):
                return None
            lines = pc.binary_join_element_wise(texts, "\n", "")
            data = lines.buffers()[2]
            table = pajson.read_json(
                pa.BufferReader(data),
                read_options=pajson.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=pajson.ParseOptions(
                    explicit_schema=pa.schema(list(self._raw)), unexpected_field_behavior="ignore"
                ),
            )
            if table.num_rows != len(values):
                return None
            columns = [column.combine_chunks() for column in table.columns]
            return _finish(pa.StructArray.from_arrays(columns, fields=list(self._raw)), self._type, self._times)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    def _parse_rows(self, values: pa.Array, first: int, errors: RowErrors) -> pa.Array:
        # Row by row in Python: the few rows around one that does not fit, and types that Arrow's parser cannot read
        # (maps, binary).
        if self._converter is None:
            self._converter = value_converter(self._type, self._times)
        rows: list[Any] = []
        for row, value in enumerate(values.to_pylist(), first):
            try:
                rows.append(self._converter(_load(value), ""))
            except Misfit as misfit:
                rows.append(None)
                errors.add(row, str(misfit))
        return pa.array(rows, self._type)


def _begin_and_end_as_objects(texts: pa.Array) -> bool:
    """Whether every text begins with { and ends with }, but for blanks.

    Arrow's parser sees objects, not lines. Each such text is then at least one object for it (within an object that
    is open after a }, no { may follow), so that as many objects as texts means one each.
    """

    def holds(texts: pa.Array) -> bool:
        return bool(pc.all(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))).as_py())

    return holds(texts) or holds(pc.ascii_trim(texts, _BLANKS))


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=str)


def _load(value: bytes) -> dict[str, Any]:
    try:
        parsed = _DECODER.decode(value.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Misfit(f"not UTF-8: {shown(error)}") from None
    except (ValueError, RecursionError) as error:
        raise Misfit(f"not JSON: {shown(error)}") from None
    if not isinstance(parsed, dict):
        raise Misfit(f"not a JSON object but {shown(value.decode('utf-8'))}")
    return parsed
