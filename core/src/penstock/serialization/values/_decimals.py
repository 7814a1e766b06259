"""Decimals to the digits of a column."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import pyarrow as pa

__all__ = ["cast_column", "fit_decimal", "read_decimal", "wide_decimal"]

#: As many digits as a decimal column holds at most (``decimal256``). Python's default, 28, fails above.
_MOST_DIGITS = 76
_DIGITS = Context(prec=_MOST_DIGITS)
#: No number of so many digits wraps around in 128 bits.
_WORD_DIGITS = 38
#: Of up to so many digits, a number that wrapped around in 128 bits has far more: Arrow's check of the digits sees it.
_SEEN_DIGITS = 18
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def fit_decimal(value: Decimal, type_: pa.DataType) -> Decimal:
    """``value`` rounded (half up) to the scale of ``type_``. Raises ValueError if it is too large or no number."""
    try:
        fitted = value.quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP, _DIGITS)
    except InvalidOperation:
        raise ValueError(f"{value} is out of range") from None
    if not fitted.is_finite() or len(fitted.as_tuple().digits) > type_.precision:
        raise ValueError(f"{value} is out of range")
    return fitted


def read_decimal(text: str, type_: pa.DataType) -> Decimal:
    """Reads a text as Spark does: digits of any script, in which commas mean nothing. Raises ValueError."""
    plain = text.replace(",", "")
    if _NUMBER.fullmatch(plain) is None:
        raise ValueError(f"{text!r} is not a number")
    try:
        return fit_decimal(Decimal(plain), type_)
    except InvalidOperation:
        raise ValueError(f"{text!r} is too large") from None


def cast_column(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns ``column`` as ``type_``, as ``pa.Array.cast``; also decimals within lists, maps and structs.

    Arrow brings decimals to another scale in 128 bits, and may miss that one does not fit: 409 as ``decimal(38, 38)``
    becomes 0.66. They go through 256 bits here, which are enough for any number of 38 digits at any scale.

    Raises pa.ArrowException for a value that does not fit.
    """
    wide = _wide(column.type, type_)
    return column.cast(type_) if wide.equals(type_) else column.cast(wide).cast(type_)


def wide_decimal(type_: pa.DataType) -> pa.DataType:
    """Returns the type of decimals to read as, before a cast to ``type_``, so that no number wraps around."""
    return pa.decimal256(_MOST_DIGITS, type_.scale) if type_.precision > _SEEN_DIGITS else type_


def _wide(given: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_decimal(wanted):
        # Of whole numbers, Arrow looks at the digits that their type may have.
        fits = types.is_decimal(given) and given.precision + max(wanted.scale - given.scale, 0) <= _WORD_DIGITS
        return wanted if fits or types.is_integer(given) else wide_decimal(wanted)
    if types.is_struct(wanted) and types.is_struct(given):
        of_name = {field.name: field.type for field in given}
        return pa.struct([field.with_type(_wide(of_name.get(field.name, field.type), field.type)) for field in wanted])
    if types.is_map(wanted) and types.is_map(given):
        key, item = wanted.key_field, wanted.item_field
        return pa.map_(
            key.with_type(_wide(given.key_type, key.type)), item.with_type(_wide(given.item_type, item.type))
        )
    if types.is_list(wanted) and not types.is_map(given) and given.num_fields == 1:
        return pa.list_(wanted.value_field.with_type(_wide(given.field(0).type, wanted.value_type)))
    return wanted
