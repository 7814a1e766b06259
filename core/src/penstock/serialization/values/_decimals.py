"""Decimals to the scale of a column."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import pyarrow as pa

__all__ = ["fit_decimal"]

#: As many digits as a decimal column holds at most (``decimal256``). Python's default, 28, fails above.
_DIGITS = Context(prec=76)


def fit_decimal(value: Decimal, type_: pa.DataType) -> Decimal:
    """``value`` rounded (half up) to the scale of ``type_``. Raises ValueError if it is too large or no number."""
    try:
        fitted = value.quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP, _DIGITS)
    except InvalidOperation:
        raise ValueError(f"{value} is out of range") from None
    if not fitted.is_finite() or len(fitted.as_tuple().digits) > type_.precision:
        raise ValueError(f"{value} is out of range")
    return fitted
