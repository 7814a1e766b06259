"""``python -m prose [FILE …]`` prints problems as ``file:line: what is wrong: what to do`` and then fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from pathlib import Path

from prose.pages import check_page
from prose.sources import check_python, check_shell
from prose.words import Finding

ROOT = Path(__file__).resolve().parents[2]
#: What is read and how; the first pattern that fits decides. ``*`` also matches slashes.
CHECKS: tuple[tuple[str, Callable[[str], list[Finding]] | None], ...] = (
    ("docs/api/*", None),
    ("*.md", check_page),
    ("core/src/*.py", check_python),
    ("connectors/*/src/*.py", check_python),
    ("scripts/*", check_shell),
)


def check_files(names: Iterable[str]) -> list[str]:
    """Returns the problems of the files, whose names are relative to the repository, a line each."""
    lines: list[str] = []
    for name in names:
        check = next((check for pattern, check in CHECKS if fnmatch(name, pattern)), None)
        if check is not None:
            found = check((ROOT / name).read_text("utf-8"))
            lines += [f"{name}:{finding.line}: {finding.wrong}: {finding.do}" for finding in found]
    return lines


def main(arguments: list[str]) -> int:
    """Checks the named files, or the whole repository. Returns the exit status."""
    lines = check_files(arguments or _all_files())
    print("\n".join(lines), file=sys.stderr, end="\n" if lines else "")
    return bool(lines)


def _all_files() -> list[str]:
    """Lists the repository, without folders that are created: ``.venv``, ``.cache``, ``build`` and the like."""
    names: list[str] = []
    for folder, inner, files in os.walk(ROOT):
        inner[:] = [name for name in inner if not name.startswith(".") and name not in ("build", "dist")]
        names += [(Path(folder) / name).relative_to(ROOT).as_posix() for name in files]
    return sorted(names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
