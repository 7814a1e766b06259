"""What a person sees last of a mistake: every case is clear, none is buried or wrong."""

from __future__ import annotations

from pathlib import Path

from errors import all_cases

HERE = Path(__file__).parent
CASES = all_cases()
_MOST_SECONDS = 900
