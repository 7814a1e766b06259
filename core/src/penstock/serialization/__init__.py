"""Versioned serializers for everything that is stored: splits, enumerator state, committables, writer state."""

from penstock.serialization._malformed import MALFORMED, inflated, malformed_is_bad_data, shortened, snappy_length
from penstock.serialization._versioned import (
    DEAD_LETTER_VERSIONS,
    JsonSerializer,
    SimpleVersionedSerializer,
    Versioned,
    no_letter_sink,
)

__all__ = [
    "DEAD_LETTER_VERSIONS",
    "MALFORMED",
    "JsonSerializer",
    "SimpleVersionedSerializer",
    "Versioned",
    "inflated",
    "malformed_is_bad_data",
    "no_letter_sink",
    "shortened",
    "snappy_length",
]
