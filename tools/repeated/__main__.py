"""``python -m repeated``: fails if logic is written twice, or if an explanation no longer applies."""

from __future__ import annotations

import sys
from pathlib import Path

from repeated.checking import problems, read_explained, repeated_in

ROOT = Path(__file__).parents[2]


def main() -> int:
    """The command. Exit code 1 if something is to be done."""
    found = list(problems(repeated_in(ROOT), read_explained(Path(__file__).with_name("explained.json"))))
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
