"""What is offered has a docstring: its own, or that of the method it implements; a constant, a comment ``#:``."""

from __future__ import annotations

from collections.abc import Iterator

import griffe

from public_api.loading import faces, public_names

__all__ = ["undocumented"]


def undocumented(package: griffe.Module) -> Iterator[str]:
    """A line for each name of a face that nothing is said of, public or not."""
    seen: set[str] = set()
    for module in faces(package):
        if module.docstring is None:
            yield f"{module.path}: the module has no docstring"
        for name in public_names(module):
            member = module.members[name]
            if isinstance(member, griffe.Alias):
                if not member.resolved:
                    continue  # another distribution's
                member = member.final_target
            if member.path in seen:
                continue
            seen.add(member.path)
            if not _is_documented(member):
                yield f"{member.path}: has no {'comment #:' if member.is_attribute else 'docstring'}"
            if isinstance(member, griffe.Class):
                yield from _undocumented_methods(member)


def _undocumented_methods(owner: griffe.Class) -> Iterator[str]:
    for name, member in sorted(owner.members.items()):
        if name.startswith("_") or isinstance(member, griffe.Alias):
            continue
        callable_ = isinstance(member, griffe.Function) or "property" in member.labels
        if callable_ and not any(name in one.members and _is_documented(one.members[name]) for one in _lineage(owner)):
            yield f"{member.path}: has no docstring"


def _lineage(owner: griffe.Class) -> list[griffe.Class]:
    return [owner, *owner.mro()]


def _is_documented(member: griffe.Object | griffe.Alias) -> bool:
    if member.docstring is not None or isinstance(member, griffe.Alias):
        return True
    return isinstance(member, griffe.Attribute) and "property" not in member.labels and _has_comment(member)


def _has_comment(member: griffe.Attribute) -> bool:
    """Whether ``#:`` stands above it, or above the block of lines that it is in."""
    source = member.module.lines
    line = (member.lineno or 1) - 2
    while line >= 0 and source[line].strip() and not source[line].startswith("#:"):
        line -= 1
    return line >= 0 and source[line].startswith("#:")
