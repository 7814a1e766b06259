"""Packages as griffe sees them: read, not imported, so that nothing has to be installed and nothing runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

import griffe

__all__ = ["faces", "load_packages", "public_modules", "public_names"]

#: Of a connector, its own face is public, and its servers to try things with; its other rooms are its own.
_PUBLIC_ROOMS = ("dev",)

logging.getLogger("griffe").setLevel(logging.ERROR)


def load_packages(sources: Iterable[Path]) -> dict[str, griffe.Module]:
    """The package in each of the ``src`` folders, by name; what one takes from another is resolved."""
    folders = list(sources)
    loader = griffe.GriffeLoader(search_paths=folders, allow_inspection=False)
    names = [path.parent.name for folder in folders for path in sorted(folder.glob("*/__init__.py"))]
    for name in names:
        loader.load(name)
    loader.resolve_aliases(implicit=True, external=False)
    return {name: loader.modules_collection[name] for name in names}


def public_modules(package: griffe.Module) -> Iterator[griffe.Module]:
    """The faces that users and authors of connectors may import."""
    for face in faces(package):
        room = face.path.removeprefix(package.path).lstrip(".").partition(".")[0]
        if package.path == "penstock" or room in ("", *_PUBLIC_ROOMS):
            yield face


def faces(package: griffe.Module) -> Iterator[griffe.Module]:
    """The package and what is below it, by path: modules that say what they offer, without a leading underscore."""
    if package.exports is not None:
        yield package
    for name, member in sorted(package.members.items()):
        if isinstance(member, griffe.Module) and not name.startswith("_"):
            yield from faces(member)


def public_names(module: griffe.Module) -> list[str]:
    """What ``__all__`` says, sorted, without ``__version__`` and its like. Raises LookupError for what is not there."""
    names = sorted(str(name) for name in module.exports or () if not str(name).startswith("_"))
    if missing := [name for name in names if name not in module.members]:
        raise LookupError(f"{module.path}: {', '.join(missing)}: in __all__, but not defined by a statement of its own")
    return names
