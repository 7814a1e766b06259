"""How many schedules the commit protocol has passed as it is now: ``simulated.json`` beside this file.

``scripts/soak simulate --record`` adds to it. The count begins again when the code changes that the schedules run.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone
from pathlib import Path

__all__ = ["FILE", "record"]

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("simulated.json")
#: The protocol, ``df.write`` and the sinks that are simulated.
_CODE = (
    *(f"core/src/penstock/{name}" for name in ("_commit", "checkpoint", "sink", "storage")),
    *(f"core/src/penstock/{name}" for name in ("spark/_write.py", "retry.py")),
    *(f"connectors/{name}/src/penstock_{name}/sink" for name in ("filesystem", "kafka", "pravega")),
    "connectors/cassandra/src/penstock_cassandra/sink/_committer.py",
)


def record(schedules: int, killed: int, path: Path = FILE, root: Path = ROOT) -> int:
    """Adds schedules that found nothing, and the processes killed in them. Returns the number of schedules so far."""
    code = _hash(root)
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if known.get("code") != code:
        known = {}
    known = {
        "code": code,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "schedules": known.get("schedules", 0) + schedules,
        "processes killed": known.get("processes killed", 0) + killed,
    }
    path.write_text(json.dumps(known, indent=2) + "\n", "utf-8")
    total: int = known["schedules"]
    return total


def _hash(root: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(path for name in _CODE for path in _files(root / name)):
        found.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("*.py"))
