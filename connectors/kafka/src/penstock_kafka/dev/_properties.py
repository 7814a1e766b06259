"""Java's files of properties."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["write_properties"]


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Writes settings as Java reads them."""
    # In this format a backslash escapes.
    lines = [f"{name}={value}".replace("\\", "\\\\") for name, value in settings.items()]
    path.write_text("\n".join(lines) + "\n", "utf-8")
