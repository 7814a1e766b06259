"""The last complete run, on record in the repository: ``full-run.json`` beside this file."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

__all__ = ["FILE", "record"]

FILE = Path(__file__).with_name("full-run.json")


def record(counts: Mapping[str, int], minutes: float, path: Path = FILE) -> None:
    """Writes down what ``scripts/test --all`` came to: when, at which commit, how many tests of which outcome."""
    run = {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "commit": _commit(path.parent),
        "minutes": round(minutes, 1),
        **{outcome: counts.get(outcome, 0) for outcome in ("passed", "failed", "error", "skipped")},
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "cores": os.cpu_count(),
    }
    path.write_text(json.dumps(run, indent=2) + "\n", "utf-8")


def _commit(folder: Path) -> str:
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout.strip()
