"""Rows enriched by key from a table."""

from __future__ import annotations

__all__ = ["Lookup"]


class Lookup:
    """To come."""
