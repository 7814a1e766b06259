"""What a package offers, as lines of text: ``path: what it is``, sorted by path.

=================================== ================================================================================
``module``                          a module; its names are those of its ``__all__``
``class(bases)``                    a class; its methods and attributes follow
``def(parameters) -> type``         a function or method, without ``self``; before it may be ``abstract``,
                                    ``classmethod``, ``staticmethod`` and ``async``
``property -> type``                a property; ``abstract`` before it
``data: type = value``              a constant, an attribute, a dataclass's field; values that are short
``same as path``                    the same thing under another name
=================================== ================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

import griffe

from public_api.loading import public_modules, public_names

__all__ = ["Listing", "list_package", "offered_by", "parse_listing", "render_listing"]

#: Path -> what it is.
Listing = Mapping[str, str]

_LONGEST_VALUE = 60
#: Written for Python or for the debugger, not to be called.
_NOT_CALLED = {"__post_init__", "__repr__", "__str__", "__getattr__", "__reduce__", "__getstate__", "__setstate__"}


def list_package(package: griffe.Module, offered: Set[str]) -> Listing:
    """Every public name of ``package``. ``offered`` are the things that it and others offer: :func:`offered_by`."""
    homes = _homes(package)
    lines: dict[str, str] = {}
    for module in public_modules(package):
        lines[module.path] = "module"
        for name in public_names(module):
            path = f"{module.path}.{name}"
            member = module.members[name]
            home = homes.get(_canonical(member), path)
            lines.update([(path, f"same as {home}")] if home != path else _lines(path, member, offered))
    return dict(sorted(lines.items()))


def offered_by(packages: Iterable[griffe.Module]) -> frozenset[str]:
    """Where the things are defined that users can name."""
    return frozenset(canonical for package in packages for canonical in _homes(package))


def render_listing(package: str, listing: Listing) -> str:
    """The text of the file."""
    head = f"# The public API of {package}, written by scripts/api --update. What the lines mean: README.md\n"
    return head + "".join(f"{path}: {what}\n" for path, what in listing.items())


def parse_listing(text: str) -> Listing:
    """The listing in a file's text."""
    pairs = (line.partition(": ") for line in text.splitlines() if line and not line.startswith("#"))
    return {path: what for path, _, what in pairs}


def _homes(package: griffe.Module) -> dict[str, str]:
    """Where a thing that is offered in several places is described: where it is defined, else by its shortest path."""
    offered: dict[str, list[str]] = {}
    for module in public_modules(package):
        for name in public_names(module):
            offered.setdefault(_canonical(module.members[name]), []).append(f"{module.path}.{name}")
    return {
        canonical: canonical if canonical in paths else min(paths, key=lambda path: (path.count("."), path))
        for canonical, paths in offered.items()
    }


def _canonical(member: griffe.Object | griffe.Alias) -> str:
    return member.target_path if isinstance(member, griffe.Alias) and not member.resolved else member.canonical_path


def _lines(path: str, member: griffe.Object | griffe.Alias, offered: Set[str]) -> Iterator[tuple[str, str]]:
    if isinstance(member, griffe.Alias):
        if not member.resolved:
            yield path, f"same as {member.target_path}"  # of another distribution
            return
        member = member.final_target
    if isinstance(member, griffe.Class):
        yield path, f"class({', '.join(str(base) for base in member.bases)})"
        for name, inner in sorted(_class_members(member, offered).items()):
            yield from _lines(f"{path}.{name}", inner, offered)
    elif isinstance(member, griffe.Function):
        words = ["abstract"] if "abstractmethod" in _decorators(member) else []
        words += [word for word in ("classmethod", "staticmethod", "async") if word in member.labels]
        yield path, f"{' '.join([*words, 'def'])}{_one_line(member.signature(name=' ').strip())}"
    elif isinstance(member, griffe.Attribute):
        yield path, _attribute(member)
    else:
        yield path, "module"


def _class_members(owner: griffe.Class, offered: Set[str]) -> dict[str, griffe.Object | griffe.Alias]:
    """What the class adds to the bases that users can name; of other bases, what they have is the class's own.

    An override is listed with the base. Cases of a suite are listed by pytest.
    """
    found: dict[str, griffe.Object | griffe.Alias] = {}
    inherited: set[str] = set()
    for base in reversed(owner.resolved_bases):
        if isinstance(base, griffe.Class):
            inherited |= _offered_names(base, offered)
            if base.canonical_path not in offered:
                found |= _class_members(base, offered)
    found |= {name: member for name, member in owner.members.items() if _is_offered(name, member)}
    return {name: member for name, member in found.items() if name == "__init__" or name not in inherited}


def _offered_names(owner: griffe.Class, offered: Set[str]) -> set[str]:
    """The names of the class if users can name it, else those of what it is based on."""
    if owner.canonical_path in offered:
        return _all_names(owner)
    bases = (base for base in owner.resolved_bases if isinstance(base, griffe.Class))
    return set().union(*(_offered_names(base, offered) for base in bases))


def _all_names(owner: griffe.Class) -> set[str]:
    names = {name for name, member in owner.members.items() if _is_offered(name, member)}
    return names.union(*(_all_names(base) for base in owner.resolved_bases if isinstance(base, griffe.Class)))


def _is_offered(name: str, member: griffe.Object | griffe.Alias) -> bool:
    if name.startswith("__") and name.endswith("__"):
        return isinstance(member, griffe.Function) and name not in _NOT_CALLED
    return not name.startswith(("_", "test_")) and not isinstance(member, griffe.Alias)


def _decorators(member: griffe.Function | griffe.Attribute) -> set[str]:
    return {str(decorator.value).rpartition(".")[2] for decorator in getattr(member, "decorators", ())}


def _attribute(member: griffe.Attribute) -> str:
    annotation = "" if member.annotation is None else _one_line(str(member.annotation))
    if "property" in member.labels:
        abstract = "abstract " * ("abstractmethod" in _decorators(member) or "abstractmethod" in member.labels)
        return f"{abstract}property" + (f" -> {annotation}" if annotation else "")
    value = "" if member.value is None else _one_line(str(member.value))
    shown = value and "instance-attribute" not in member.labels
    if len(value) > _LONGEST_VALUE:
        value = "…"
    return "data" + (f": {annotation}" if annotation else "") + (f" = {value}" if shown else "")


def _one_line(text: str) -> str:
    return " ".join(text.split())
