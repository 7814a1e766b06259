"""Markdown as the repository writes it: links and headings outside of code, anchors as repository viewers name them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

__all__ = ["anchor_of", "anchors", "link_targets", "map_links", "map_prose", "title_of"]

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$", re.MULTILINE)
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


def map_prose(text: str, change: Callable[[str], str]) -> str:
    """``text`` with ``change`` applied to what is neither a block of code nor code within a line."""
    return "".join(piece if is_block else _map_outside_inline(piece, change) for is_block, piece in _blocks(text))


def _blocks(text: str) -> Iterator[tuple[bool, str]]:
    """Pieces of ``text`` in order, and whether each is a fenced block."""
    lines: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        found = _FENCE.match(line)
        if not fence and found:
            yield False, "".join(lines)
            lines, fence = [], found.group(1)
            lines.append(line)
        elif fence and found and line.strip().strip(fence[0]) == "" and len(found.group(1)) >= len(fence):
            yield True, "".join([*lines, line])
            lines, fence = [], ""
        else:
            lines.append(line)
    yield bool(fence), "".join(lines)


def _map_outside_inline(text: str, change: Callable[[str], str]) -> str:
    """Code within a line is put aside, so that a link whose text is code is still one piece."""
    kept: list[str] = []

    def put_aside(found: re.Match[str]) -> str:
        kept.append(found.group())
        return f"\0{len(kept) - 1}\0"

    changed = change(_INLINE_CODE.sub(put_aside, text))
    return re.sub("\0(\\d+)\0", lambda found: kept[int(found.group(1))], changed)


def map_links(text: str, change: Callable[[str], str]) -> str:
    """``text`` with the target of every link and picture replaced by what ``change`` makes of it."""
    return map_prose(text, lambda prose: _LINK.sub(lambda f: f.group(1) + change(f.group(2)) + f.group(3), prose))


def link_targets(text: str) -> list[str]:
    """The target of every link and picture, as written."""
    found: list[str] = []

    def note(target: str) -> str:
        found.append(target)
        return target

    map_links(text, note)
    return found


def anchor_of(heading: str, separator: str = "-") -> str:
    """The anchor of a heading: lower case, blanks to hyphens, no other punctuation."""
    return _NOT_IN_ANCHORS.sub("", heading.strip().lower()).replace(" ", separator)


def anchors(text: str) -> set[str]:
    """Every anchor of a page; a heading that comes again gets a number, so only the first can be linked to."""
    prose = "".join(piece for is_block, piece in _blocks(text) if not is_block)
    return {anchor_of(_plain(heading)) for _, heading in _HEADING.findall(prose)}


def title_of(text: str) -> str | None:
    """The first heading of the highest level."""
    prose = "".join(piece for is_block, piece in _blocks(text) if not is_block)
    return next((_plain(heading) for marks, heading in _HEADING.findall(prose) if marks == "#"), None)


def _plain(heading: str) -> str:
    """A heading without marks of code and links."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
