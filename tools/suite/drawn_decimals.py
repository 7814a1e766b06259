"""Strategies for decimals of any digits and scale."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

__all__ = ["EXACT", "decimal_types", "numbers_of"]

#: Enough digits for a number of 38 at any scale.
EXACT = Context(prec=120)


@st.composite
def decimal_types(draw: Any) -> pa.DataType:
    """Draws types of decimals, many of them with as many digits as there may be."""
    precision = draw(st.integers(1, 38) | st.just(38))
    return pa.decimal128(precision, draw(st.integers(0, precision)))


def numbers_of(type_: pa.DataType) -> st.SearchStrategy[Decimal]:
    """Draws numbers that a type of decimals holds."""
    limit = 10**type_.precision - 1
    return (st.integers(-limit, limit) | st.integers(-500, 500).filter(lambda one: abs(one) <= limit)).map(
        lambda one: Decimal(one).scaleb(-type_.scale, EXACT)
    )
