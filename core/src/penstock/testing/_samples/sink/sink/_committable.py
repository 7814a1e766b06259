"""What a commit needs: the name of a hidden file. It goes into the decision log."""

from __future__ import annotations

from penstock.serialization import JsonSerializer

__all__ = ["COMMITTABLE_SERIALIZER"]

COMMITTABLE_SERIALIZER = JsonSerializer(1, lambda name: {"name": name}, lambda version, fields: str(fields["name"]))
