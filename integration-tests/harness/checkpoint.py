"""What a checkpoint says of its query."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["committed", "decided", "query_id"]


def committed(checkpoint: Path) -> int:
    """How many batches Spark has noted as committed."""
    return sum(1 for _ in checkpoint.glob("commits/[0-9]*"))


def decided(checkpoint: Path) -> list[str]:
    """The kinds of the decisions that are kept, in any order."""
    return [json.loads(path.read_text())["kind"] for path in checkpoint.glob("penstock/decisions/*.json")]


def query_id(checkpoint: Path) -> str:
    return json.loads((checkpoint / "metadata").read_text())["id"]
