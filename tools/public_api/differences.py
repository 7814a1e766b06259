"""What changed between two listings. What breaks a user's code is judged by griffe, on stubs made of the listings.

Griffe judges for callers. For authors there is one thing more: a class that asks for a method which it did not ask for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import griffe

from public_api.listing import Listing

__all__ = ["Difference", "compare"]

Kind = Literal["breaking", "added", "other"]


@dataclass(frozen=True, order=True)
class Difference:
    """What happened to ``path``, in words."""

    path: str
    kind: Kind
    words: str


def compare(old: Listing, new: Listing) -> list[Difference]:
    """What changed from ``old`` to ``new``, by path; several lines where several things broke."""
    same = {path for path, what in old.items() if what.startswith("same as ") and new.get(path) == what}
    old, new = _expanded(old, same), _expanded(new, same)
    found = [*_breakages(old, new), *_new_duties(old, new)]
    told = {difference.path for difference in found}
    for path in sorted(old.keys() | new.keys()):
        if path in told or path not in new or old.get(path) == new[path]:
            continue  # what is gone, griffe has told: with what was in it, and unless it is inherited now
        if path not in old:
            found.append(Difference(path, "added", "is new"))
        elif _words(old[path]) - {"abstract"} != _words(new[path]) - {"abstract"}:
            found.append(Difference(path, "breaking", f"was {old[path]}, is {new[path]}"))
        else:
            found.append(Difference(path, "other", f"was {old[path]}, is {new[path]}"))
    return sorted(found)


def _expanded(listing: Listing, same: set[str]) -> dict[str, str]:
    """With what has two names spelled out under both, so that a thing may move; without ``same``: nothing moved."""
    expanded = {path: what for path, what in listing.items() if path not in same}
    for path, what in list(expanded.items()):
        target = what.removeprefix("same as ")
        if what.startswith("same as ") and target in listing:
            inner = {path + one.removeprefix(target): of for one, of in listing.items() if one.startswith(f"{target}.")}
            expanded |= {path: listing[target], **inner}
    return dict(sorted(expanded.items()))


def _words(what: str) -> set[str]:
    """What stands before the parameters: ``abstract``, ``classmethod``, ``def`` …"""
    return set(what.split("(")[0].split(" -> ")[0].split(" ")) if "def(" in what else set()


def _new_duties(old: Listing, new: Listing) -> Iterator[Difference]:
    for path, what in new.items():
        owner = old.get(path.rpartition(".")[0], "")
        was_abstract = old.get(path, "").startswith("abstract ")
        if what.startswith("abstract ") and owner.startswith("class(") and not was_abstract:
            yield Difference(path, "breaking", "is abstract: who extends the class must write it now")


def _breakages(old: Listing, new: Listing) -> Iterator[Difference]:
    if not old:
        return
    for breakage in griffe.find_breaking_changes(_stub(old), _stub(new)):
        if breakage.kind is griffe.BreakageKind.OBJECT_REMOVED:
            if breakage.obj.path in old:  # else it was inherited, and is told of its owner
                yield Difference(breakage.obj.path, "breaking", "was removed")
            continue
        value = breakage.old_value if breakage.old_value is not None else breakage.new_value
        name = f" ('{value.name}')" if isinstance(value, griffe.Parameter) else ""
        yield Difference(breakage.obj.path, "breaking", f"{breakage.kind.value.lower()}{name}")


def _stub(listing: Listing) -> griffe.Module:
    """A package of stubs with what is listed, loaded."""
    package = min(listing, key=len).split(".")[0]
    with tempfile.TemporaryDirectory(prefix="penstock-api-") as folder:
        for module, text in _sources(listing).items():
            path = Path(folder, *module.split("."), "__init__.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        loaded = griffe.GriffeLoader(search_paths=[folder], allow_inspection=False).load(package)
        assert isinstance(loaded, griffe.Module)
        return loaded


def _sources(listing: Listing) -> dict[str, str]:
    """Module -> Python that says what the listing says. Sorted lines have a class right before what is in it."""
    sources = {path: "" for path, what in listing.items() if what == "module"}
    for path, what in listing.items():
        module = max((one for one in sources if f"{path}.".startswith(f"{one}.")), key=len)
        if what == "module":
            continue
        *outer, name = path.removeprefix(f"{module}.").split(".")
        indent = "    " * len(outer)
        sources[module] += f"{indent}{_statement(name, what)}\n"
        if what.startswith("class("):
            sources[module] += f"{indent}    ...\n"
    return sources


def _statement(name: str, what: str) -> str:
    if what.startswith("class("):
        return f"class {name}{what.removeprefix('class')}:"
    if "def(" in what:
        return f"def {name}{what[what.index('def(') + len('def') :]}: ..."
    annotation = what.removeprefix("data: ").split(" = ")[0] if what.startswith("data: ") else "object"
    return f"{name}: {annotation}"
