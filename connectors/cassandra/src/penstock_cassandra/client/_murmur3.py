"""The driver's own hash of partition keys: compiled where the driver is."""

try:
    from cassandra.cmurmur3 import murmur3
except ImportError:
    from cassandra.murmur3 import murmur3

__all__ = ["murmur3"]
