"""What a release says of its files: their checksums, and from which commit with which tools they were built.

The statement is in-toto's with SLSA's provenance, without a signature: whoever hosts the release signs it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["CHECKSUMS", "STATEMENT", "write_checksums", "write_statement"]

CHECKSUMS = "SHA256SUMS"
STATEMENT = "provenance.intoto.json"


def write_checksums(files: Sequence[Path], out: Path) -> Path:
    """Writes ``SHA256SUMS``, as ``sha256sum --check`` reads it."""
    target = out / CHECKSUMS
    target.write_text("".join(f"{_digest(path)}  {path.name}\n" for path in sorted(files)), "utf-8")
    return target


def write_statement(
    files: Sequence[Path], out: Path, *, commit: str, repository: str, versions: Mapping[str, str], tools: Sequence[str]
) -> Path:
    """Writes the statement. ``tools``: the pinned requirements of the environment that builds, ``name==version``."""
    materials: list[dict[str, Any]] = [
        {"uri": f"git+{repository or 'file:///'}", "digest": {"gitCommit": commit}},
        *({"uri": f"pkg:pypi/{tool.replace('==', '@')}"} for tool in tools),
    ]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": _digest(path)}} for path in sorted(files)],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:penstock:scripts-release:v1",
                "externalParameters": {"packages": dict(versions)},
                "internalParameters": {},
                "resolvedDependencies": materials,
            },
            "runDetails": {"builder": {"id": "urn:penstock:scripts-release"}},
        },
    }
    target = out / STATEMENT
    target.write_text(json.dumps(statement, indent=1) + "\n", "utf-8")
    return target


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
