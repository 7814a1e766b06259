"""What a commit needs: the name of a prepared transaction. It goes into the decision log."""

from __future__ import annotations

from penstock.serialization import JsonSerializer

__all__ = ["COMMITTABLE_SERIALIZER", "base_of", "name_of", "query_of"]

COMMITTABLE_SERIALIZER = JsonSerializer(1, lambda name: {"name": name}, lambda version, fields: str(fields["name"]))


def name_of(query_id: str, base: int, attempt_id: str) -> str:
    """The name of the transaction of one attempt: unique in the world, and known for garbage by query and base."""
    return f"{query_id}:{base}:{attempt_id}"


def query_of(name: str) -> str:
    """The query that made the transaction."""
    return name.rsplit(":", 2)[0]


def base_of(name: str) -> int:
    """The base of its batch."""
    return int(name.rsplit(":", 2)[1])
