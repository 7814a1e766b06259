"""Versioned serializers for everything that is stored: splits, enumerator state, committables, writer state."""

from penstock.serialization._malformed import MALFORMED, inflated, malformed_is_bad_data, shortened, snappy_length
from penstock.serialization._versioned import JsonSerializer, SimpleVersionedSerializer, Versioned

__all__ = [
    "MALFORMED",
    "JsonSerializer",
    "SimpleVersionedSerializer",
    "Versioned",
    "inflated",
    "malformed_is_bad_data",
    "shortened",
    "snappy_length",
]
