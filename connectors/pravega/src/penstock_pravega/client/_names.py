"""Segments and transactions by number and by name."""

from __future__ import annotations

__all__ = [
    "check_name",
    "epoch_of",
    "number_of",
    "segment_name",
    "short_name",
    "stream_name",
    "transaction_segment_name",
]

import re

_NAME = re.compile(r"[0-9A-Za-z._-]+")


def check_name(what: str, name: str) -> str:
    """``name`` if it can be that of a scope or a stream. Raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{what} {name!r}: letters, digits, '.', '-' and '_' are allowed")
    return name


def stream_name(scope: str, stream: str) -> str:
    """``scope/stream``."""
    return f"{scope}/{stream}"


def number_of(segment: int) -> int:
    """A segment id is epoch << 32 | number."""
    return segment & 0xFFFFFFFF


def epoch_of(segment: int) -> int:
    """Returns the epoch that a segment came with."""
    return segment >> 32


def short_name(segment: int) -> str:
    """``3.#epoch.1``: how Pravega names it within its stream."""
    return f"{number_of(segment)}.#epoch.{epoch_of(segment)}"


def segment_name(stream: str, segment: int) -> str:
    """Returns the name that segment stores know; ``stream`` is ``scope/stream``."""
    return f"{stream}/{short_name(segment)}"


def transaction_segment_name(stream: str, segment: int, transaction: int) -> str:
    """Returns the segment that holds a transaction's events for ``segment`` of its epoch. 32 hex digits of its 128-bit
    id.
    """
    return f"{segment_name(stream, segment)}#transaction.{transaction:032x}"
