"""Versioned serializers for everything that is stored: splits, enumerator state, committables, writer state."""

from penstock.serialization._versioned import JsonSerializer, SimpleVersionedSerializer, Versioned

__all__ = ["JsonSerializer", "SimpleVersionedSerializer", "Versioned"]
