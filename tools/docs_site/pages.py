"""Which page of the site a file of the repository becomes, and how its links are written there.

Markdown links are those of the repository: relative, to files and folders. The site is made of ``docs/``; what leads
out of it becomes a page of the site as well: the README is its first page, a source file is shown with its lines
numbered, a folder is its README.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from docs_site.markdown import link_targets, map_links

__all__ = ["ROOT", "expand_navigation", "is_relative", "linked_paths", "navigation_pages", "page_of", "site_markdown"]

ROOT = Path(__file__).resolve().parents[2]
_PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">'
    r'\s*<img alt="([^"]+)" src="([^"]+)">\s*</picture>'
)
_FIXED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}


def is_relative(target: str) -> bool:
    """Whether a link leads to a file of the repository: neither to another host nor to a place on the same page."""
    return not target.startswith(("#", "/", "mailto:")) and "://" not in target


def page_of(path: str) -> str:
    """Where the site has the file or folder ``path`` (relative to the repository), as a path in its sources."""
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
    if path in _FIXED:
        return _FIXED[path]
    shown_as_it_is = PurePosixPath(path).suffix in (".md", ".svg", ".png")
    of_docs = path.startswith("docs/") and (shown_as_it_is or path.startswith("docs/api/"))
    inside = path.removeprefix("docs/") if of_docs else f"source/{path}"
    return inside if shown_as_it_is else f"{inside}.md"


def _resolve(path: str, target: str) -> tuple[str, str]:
    """The file or folder that a link on ``path`` leads to, and its anchor with the mark."""
    file, mark, anchor = target.partition("#")
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), file)), mark + anchor


def linked_paths(path: str, text: str) -> list[str]:
    """The files and folders that the page ``path`` links to, relative to the repository."""
    return [_resolve(path, target)[0] for target in link_targets(text) if is_relative(target)]


def site_markdown(path: str, text: str) -> str:
    """The Markdown of ``path`` as the site takes it: links lead to pages of the site."""
    here = posixpath.dirname(page_of(path))

    def rewritten(target: str) -> str:
        if not is_relative(target):
            return target
        wanted, anchor = _resolve(path, target)
        if not (ROOT / wanted).exists():
            return target  # the build says that it leads nowhere
        return posixpath.relpath(page_of(wanted), here or ".") + anchor

    # The site has a switch of its own for dark pages.
    return map_links(_PICTURE.sub(r"![\2](\3#only-light)![\2](\1#only-dark)", text), rewritten)


def expand_navigation(entries: Iterable[object]) -> list[object]:
    """The navigation with each ``folder/*`` replaced by the folder's pages and listings: README first, then by name."""
    expanded: list[object] = []
    for entry in entries:
        if isinstance(entry, dict):
            ((title, value),) = entry.items()
            expanded.append({title: expand_navigation(value) if isinstance(value, list) else value})
        elif isinstance(entry, str) and entry.endswith("/*"):
            names = sorted(os.listdir(ROOT / "docs" / entry[:-2]), key=lambda name: (name != "README.md", name))
            expanded += [page_of(f"docs/{entry[:-1]}{name}") for name in names if name.endswith((".md", ".txt"))]
        else:
            expanded.append(entry)
    return expanded


def navigation_pages(entries: Iterable[object]) -> list[str]:
    """Every page that the (expanded) navigation names."""
    pages: list[str] = []
    for entry in entries:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        pages += navigation_pages(value) if isinstance(value, list) else [str(value)]
    return pages
