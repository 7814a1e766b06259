"""Mutants that no test can notice, with the reasons, in ``survivors.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from mutants.faults import Mutant

__all__ = ["Survivors"]


@dataclass(frozen=True)
class Survivors:
    """``reasons`` is by file and mutant's key. In the file mutants that share a reason stand together."""

    reasons: dict[str, dict[str, str]] = field(default_factory=dict)
    path: ClassVar[Path] = Path(__file__).with_name("survivors.json")

    @classmethod
    def load(cls) -> Survivors:
        """What is written down."""
        found = json.loads(cls.path.read_text()) if cls.path.exists() else {}
        return cls({file: {key: why for why, keys in groups.items() for key in keys} for file, groups in found.items()})

    def reason(self, mutant: Mutant) -> str:
        """Why nothing notices it; empty if that is not known."""
        return self.reasons.get(mutant.file, {}).get(mutant.key, "")

    def stale(self, mutants: Iterable[Mutant], files: Sequence[str]) -> list[str]:
        """What is listed of ``files``, and is none of their mutants."""
        there = {(mutant.file, mutant.key) for mutant in mutants}
        return [f"{file}: {key}" for file in files for key in self.reasons.get(file, {}) if (file, key) not in there]
