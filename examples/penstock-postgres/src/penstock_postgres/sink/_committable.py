"""What a commit needs: the name of a prepared transaction. It goes into the decision log."""

from __future__ import annotations

from penstock.serialization import JsonSerializer

__all__ = ["COMMITTABLE_SERIALIZER"]

COMMITTABLE_SERIALIZER = JsonSerializer(1, lambda gid: {"gid": gid}, lambda version, fields: str(fields["gid"]))
