"""Reads a checkpoint: its batches, its decisions, its query."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["committed", "decided", "query_id"]


def committed(checkpoint: Path) -> int:
    """Returns the number of batches that Spark has recorded as committed."""
    return sum(1 for _ in checkpoint.glob("commits/[0-9]*"))


def decided(checkpoint: Path) -> list[str]:
    """Returns the kinds of the decisions in the log, in any order."""
    return [json.loads(path.read_text())["kind"] for path in checkpoint.glob("penstock/decisions/*.json")]


def query_id(checkpoint: Path) -> str:
    """Returns the id that Spark gave the query."""
    return str(json.loads((checkpoint / "metadata").read_text())["id"])
