"""Bytes that are not what they should be: one kind of error for whatever the code that reads them runs into."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import BadDataError

__all__ = ["MALFORMED", "inflated", "malformed_is_bad_data", "shortened"]

#: What code that takes bytes or JSON apart runs into if they are damaged.
MALFORMED: tuple[type[Exception], ...] = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    EOFError,
    struct.error,
    zlib.error,
)
_MOST_BYTES = 1 << 28
_MOST_SHOWN = 200


@contextmanager
def malformed_is_bad_data(what: str) -> Iterator[None]:
    """Turns :data:`MALFORMED` errors of the block into BadDataError, which begins with ``what``: the place and the
    thing. Other errors pass.
    """
    try:
        yield
    except MALFORMED as error:
        reason = shortened(f"{type(error).__name__}: {error}")
        raise BadDataError(f"{what} is damaged ({reason}): put it back from a copy") from error


def shortened(text: str, most: int = _MOST_SHOWN) -> str:
    """Returns a text for a message, cut to ``most`` characters: bytes from outside decide how long it is."""
    return text if len(text) <= most else f"{text[:most]}…"


def inflated(data: bytes, most_bytes: int = _MOST_BYTES) -> bytes:
    """Decompresses what ``zlib.compress`` returned. Raises ValueError if it would be longer than ``most_bytes``, or is
    cut off.
    """
    stream = zlib.decompressobj()
    plain = stream.decompress(data, most_bytes)
    if not stream.eof:
        raise ValueError(f"{len(data)} bytes are cut off, or of more than {most_bytes} once they are decompressed")
    return plain
