"""How much the benchmarks of files take of everything."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    rows: int
    repetitions: int
    micro_batches: int
    listed_files: int
    state_files: int = 1_000_000
