"""Names of directories that hold a column, ``day=2026-01-01``, as Hive and Spark write them."""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["NULL_PARTITION", "directory_values", "escape_path_name", "unescape_path_name"]

#: The value of a directory whose rows have a null in the column, or an empty text.
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")


def escape_path_name(text: str) -> str:
    """Escapes what Hive and Spark escape: ``a/b`` → ``a%2Fb``."""
    return _ESCAPED.sub(lambda match: f"%{ord(match.group()):02X}", text)


def unescape_path_name(text: str) -> str:
    """Inverts :func:`escape_path_name`. As in Spark, each escape is one character."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def directory_values(values: pa.Array) -> list[str]:
    """Returns the names of these values' directories, without the column, as Spark writes them: readers infer types
    from them.

    Null and the empty text are ``NULL_PARTITION``; points in time are written in UTC.
    """
    type_ = values.type
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        micros = pa.timestamp("us") if pa.types.is_timestamp(type_) else pa.time64("us")
        written = values.cast(micros, safe=False).cast(pa.string())
        texts = pc.replace_substring_regex(written, r"\.?0+$", "").to_pylist()
    elif pa.types.is_floating(type_):
        texts = [text and _number_as_in_java(text) for text in values.cast(pa.string()).to_pylist()]
    elif pa.types.is_decimal(type_):
        texts = [None if value is None else f"{value:f}" for value in values.to_pylist()]
    else:
        texts = values.cast(pa.string()).to_pylist()
    return [escape_path_name(text) if text else NULL_PARTITION for text in texts]


def _number_as_in_java(text: str) -> str:
    """Writes the shortest digits of a float as Java does: ``100.0``, but ``1.0E7`` and ``1.0E-4``."""
    number = Decimal(text)
    if not number.is_finite():
        sign = "-" if number.is_signed() and number.is_infinite() else ""
        return sign + ("Infinity" if number.is_infinite() else "NaN")
    if not number or -3 <= number.adjusted() < 7:
        plain = f"{number:f}"
        return plain if "." in plain else f"{plain}.0"
    is_negative, digits, _ = number.as_tuple()
    first, rest = str(digits[0]), "".join(map(str, digits[1:])).rstrip("0")
    return f"{'-' if is_negative else ''}{first}.{rest or '0'}E{number.adjusted()}"
