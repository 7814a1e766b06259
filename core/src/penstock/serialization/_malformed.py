"""Bytes that are not what they should be: one kind of error for whatever the code that reads them runs into."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import BadDataError

__all__ = ["MALFORMED", "inflated", "malformed_is_bad_data", "shortened", "snappy_length"]

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
#: Of snappy: three bytes stand for 64 at most.
_SNAPPY_MOST_TIMES = 22


@contextmanager
def malformed_is_bad_data(what: str) -> Iterator[None]:
    """Turns :data:`MALFORMED` errors of the block into BadDataError, which begins with ``what``: the place and the
    thing. Other errors pass.
    """
    try:
        yield
    except MALFORMED as error:
        raise BadDataError(f"{what} is damaged ({_reason(error)}): put it back from a copy") from error


def _reason(error: Exception) -> str:
    """Returns what a person can see in the file. What Python says of a wrong type is about the code that reads it."""
    if isinstance(error, KeyError):
        return shortened(f"{error} is missing in it")
    if isinstance(error, TypeError | AttributeError | IndexError):
        return "it does not have the form that belongs there"
    return shortened(f"{type(error).__name__}: {error}")


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


def snappy_length(block: bytes) -> int:
    """Returns how many bytes a block of snappy says that it becomes: its first bytes, seven bits each, lowest first.

    Raises ValueError if so short a block can't.
    """
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _SNAPPY_MOST_TIMES * len(block):
        raise ValueError(f"{len(block)} bytes of snappy can't become {size}")
    return size
