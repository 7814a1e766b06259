"""The changelog of a package: its fragments become the section of a version.

A fragment is a file ``<package>.<word>.<kind>.md`` in ``changelog.d/``. The section has one list for each kind.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from release.packages import ReleaseError

__all__ = ["KINDS", "add_section", "fragments_of", "section"]

#: The kinds of changes and their headings, in the order of the page.
KINDS = {"added": "Added", "changed": "Changed", "removed": "Removed", "fixed": "Fixed"}
_TITLE = "# Changelog\n"
#: A link to a file of the repository: neither to another host nor to a place on the same page.
_LINK = re.compile(r"\]\((?![a-z]+:|#|/)([^)#]+)")


def fragments_of(folder: Path, package: str) -> list[Path]:
    """Returns the fragments of a package, by name. Raises ReleaseError for one of an unknown kind."""
    found = []
    for path in sorted(folder.glob("*.md")):
        parts = path.name.split(".")
        if parts[0] != package:
            continue
        if len(parts) != 4 or parts[2] not in KINDS:
            raise ReleaseError(f"{path.name} must be called {package}.<word>.<{'|'.join(KINDS)}>.md")
        found.append(path)
    return found


def section(fragments: list[Path], version: str, day: str, home: Path) -> str:
    """Returns the section of a version: a bullet for each fragment, in lists by kind.

    Links are those of a page in the directory ``home``.
    """
    lines = [f"## {version} ({day})", ""]
    for kind, heading in KINDS.items():
        texts = [_text(path, home) for path in fragments if path.name.split(".")[2] == kind]
        if not texts:
            continue
        lines += [f"### {heading}", ""]
        for text in texts:
            first, *rest = text.splitlines()
            lines += [f"- {first}", *(f"  {line}" if line else "" for line in rest)]
        lines.append("")
    return "\n".join(lines)


def _text(fragment: Path, home: Path) -> str:
    def moved(link: re.Match[str]) -> str:
        return f"]({os.path.relpath(fragment.parent / link[1], home)}"

    return _LINK.sub(moved, fragment.read_text("utf-8").strip())


def add_section(changelog: Path, text: str) -> None:
    """Puts a section before all others; makes the file if there is none."""
    before = changelog.read_text("utf-8") if changelog.exists() else _TITLE
    title, _, others = before.partition("\n")
    if f"{title}\n" != _TITLE:
        raise ReleaseError(f"{changelog} must begin with the line {_TITLE.strip()}")
    others = others.strip("\n")
    changelog.write_text(f"{_TITLE}\n{text.rstrip()}\n" + (f"\n{others}\n" if others else ""), "utf-8")
