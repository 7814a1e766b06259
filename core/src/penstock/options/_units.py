"""Texts of options as values: sizes, durations, numbers, objects named by their module."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from importlib import import_module
from typing import Any, Literal
from urllib.parse import urlsplit

from penstock.errors import BadConfigurationError

__all__ = [
    "PARSERS",
    "Kind",
    "load_object",
    "names_http_server",
    "names_object",
    "parse_bytes",
    "parse_duration_ms",
    "parse_pairs",
    "parse_port",
]

#: A "path" without a scheme is below Spark's default file system; "paths" are a JSON list of them; a "file" is one of
#: the machine that opens it. A sink's "column"
#: is one that its rows must have, or a function as ``module:name``; "columns" are several, with commas between.
Kind = Literal[
    "string", "path", "paths", "file", "column", "columns", "int", "float", "bool", "bytes", "duration", "choice"
]

_BYTES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20}
_BYTES |= {"g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30, "t": 1 << 40, "tb": 1 << 40, "tib": 1 << 40}
_DURATION = {"ms": 1, "millisecond": 1, "s": 1000, "sec": 1000, "second": 1000, "m": 60_000, "min": 60_000}
_DURATION |= {"minute": 60_000, "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000}
_DURATION |= {"week": 604_800_000}
#: Of signed 64 bits, which is what Arrow, Spark and every wire format take.
_LARGEST = (1 << 63) - 1
#: 100 years, in which nothing ends. What waits takes no longer time: sockets and locks count ns in 64 bits.
_FOREVER_MS = 36_525 * 86_400_000
_LAST_PORT = 65_535
_NUMBER_UNIT = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$")

_OBJECT = re.compile(r"[\w.]+:[\w.]+")


def parse_bytes(text: str) -> int:
    """``"128mb"``, ``"1 GiB"``, ``"4096"`` → bytes (units are powers of 1024). Raises ValueError."""
    match = _NUMBER_UNIT.match(text)
    unit = match.group(2).lower() if match else None
    if match is None or unit not in _BYTES:
        raise ValueError("a size such as 128mb, 1g or 4096 (bytes)")
    size = Decimal(match.group(1)) * _BYTES[unit]
    if size > _LARGEST:
        raise ValueError("a size that fits into 64 bits: write a smaller one")
    return int(size)


def parse_duration_ms(text: str) -> int:
    """``"10 seconds"``, ``"1m"``, ``"500ms"``, ``"7d"`` → milliseconds; a bare number is ms. Longer than 100 years is
    100 years. Raises ValueError.
    """
    match = _NUMBER_UNIT.match(text)
    if match is not None:
        unit = match.group(2).lower() or "ms"
        factor = _DURATION.get(unit) or _DURATION.get(unit.removesuffix("s"))
        if factor is not None:
            duration = Decimal(match.group(1)) * factor
            if duration > _LARGEST:
                raise ValueError("a duration that fits into 64 bits: write a smaller one")
            return min(int(duration), _FOREVER_MS)
    raise ValueError("a duration such as 10s, 5 minutes or 500ms")


def parse_port(text: str) -> int:
    """``"9092"`` → 9092: a port that a server can listen on, from 1 to 65535. Raises ValueError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(_LAST_PORT)) and 1 <= int(text) <= _LAST_PORT):
        raise ValueError(f"a number from 1 to {_LAST_PORT}")
    return int(text)


def names_http_server(text: str) -> bool:
    """Returns whether ``text`` is written as an address of a server that speaks HTTP: ``https://host``, with a port and
    a path or without. No server need be there.
    """
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def names_object(text: str) -> bool:
    """Returns whether ``text`` is written as what :func:`load_object` takes; the object need not be there."""
    return _OBJECT.fullmatch(text) is not None


def load_object(owner: str, reference: str) -> Any:
    """Returns the object that an option names as ``package.module:name``. Raises BadConfigurationError that names
    ``owner``.
    """
    module, _, path = reference.partition(":")
    try:
        return reduce(getattr, path.split("."), import_module(module))
    except BadConfigurationError:
        raise
    except Exception as error:
        raise BadConfigurationError(
            f"{owner}: {reference} can't be imported: {type(error).__name__}: {error}"
        ) from error


def parse_pairs(text: str) -> dict[str, str]:
    """``"a=1, b=2"`` → ``{"a": "1", "b": "2"}``, without blanks around. Raises ValueError, which shows no value."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise ValueError("pairs as in name=value,name=value")
    found = {name.strip(): value.strip() for name, _, value in pairs}
    if len(found) < len(pairs):
        raise ValueError("pairs as in name=value,name=value, each name once")
    return found


def _parse_path(text: str) -> str:
    # What YAML or JSON escapes can hold, and a command's argument that is not UTF-8, would fail deep in a file system.
    if "\0" in text or not _is_utf8(text):
        raise ValueError("a path that a file system takes: it holds a NUL character, or is not UTF-8")
    return text


def _parse_file(text: str) -> str:
    if not text.strip():
        raise ValueError("the path of a file")
    return _parse_path(text)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_column(text: str) -> str:
    if not text.strip():
        raise ValueError("the name of a column")
    return text


def _parse_columns(text: str) -> str:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise ValueError("names of columns with commas between, each once")
    return text


def _parse_bool(text: str) -> bool:
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise ValueError("true or false")
    return value == "true"


def _parse_number(kind: type, text: str) -> Any:
    try:
        value = kind(text)
    except ValueError:
        raise ValueError("a whole number" if kind is int else "a number") from None
    if kind is int and not -_LARGEST <= value <= _LARGEST:
        raise ValueError("a whole number of at most 64 bits")
    return value


PARSERS: dict[Kind, Callable[[str], Any]] = {
    "string": str,
    "path": _parse_path,
    "paths": _parse_path,
    "file": _parse_file,
    "column": _parse_column,
    "columns": _parse_columns,
    "int": lambda text: _parse_number(int, text),
    "float": lambda text: _parse_number(float, text),
    "bool": _parse_bool,
    "bytes": parse_bytes,
    "duration": parse_duration_ms,
    "choice": str,
}
