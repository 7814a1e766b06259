"""Times as they are shown."""

from __future__ import annotations

from datetime import datetime, timezone

__all__ = ["iso_time"]


def iso_time(ms: float) -> str:
    """Returns a time in ms since the epoch as ISO 8601 in UTC, to the millisecond: ``2026-01-01T00:00:00.000Z``."""
    return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
