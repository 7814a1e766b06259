"""Which options what is made of them never looks at: an option whose value nobody reads has no effect.

An option is seen in what is made: some attributes of some objects have another value with it. A use (a batch that is
read, a restart) must read one of those attributes after the objects were made. That it is read does not prove an
effect, which a test of the effect must do; that it is not read proves that there is none.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from penstock.testing._option_cases import shape

__all__ = ["Place", "differences", "reads"]

#: A class, and the name of an attribute of its objects.
Place = tuple[type, str]
#: Who reads attributes to make, compare or copy an object as a whole.
_GENERATED = (
    "<string>",
    "/dataclasses.py",
    "/copyreg.py",
    "/copy.py",
    "/pickle.py",
    "/cloudpickle.py",
    "/option_reads.py",
    "/_option_cases.py",
)


def differences(one: Any, other: Any, opaque: tuple[type, ...] = ()) -> set[Place]:
    """Returns the innermost attributes in which two objects differ."""
    return set(_differences(one, other, opaque, frozenset()))


def _differences(one: Any, other: Any, opaque: tuple[type, ...], above: frozenset[int]) -> Iterator[Place]:
    if type(one) is not type(other) or id(one) in above:
        return
    above |= {id(one)}
    if isinstance(one, list | tuple) and len(one) == len(other):
        for mine, its in zip(one, other, strict=True):
            yield from _differences(mine, its, opaque, above)
        return
    if isinstance(one, Mapping) and one.keys() == other.keys():
        for key in one:
            yield from _differences(one[key], other[key], opaque, above)
        return
    if not type(one).__module__.startswith("penstock") or isinstance(one, opaque):
        return
    for name in _attributes(one) | _attributes(other):
        mine, its = getattr(one, name, None), getattr(other, name, None)
        if shape(mine, opaque) != shape(its, opaque):
            inner = set(_differences(mine, its, opaque, above))
            yield from inner or {(type(one), name)}


def _attributes(value: Any) -> set[str]:
    slots = {name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if isinstance(name, str)}
    return {name for name in slots if hasattr(value, name)} | set(getattr(value, "__dict__", {}))


@contextlib.contextmanager
def reads(places: Iterable[Place]) -> Iterator[tuple[set[Place], Callable[[Any], Any]]]:
    """While it is open, notes which of ``places`` are read. Also yields a decorator: within what it decorates, nothing
    is noted.
    """
    found: set[Place] = set()
    paused = [0]
    wanted: dict[type, set[str]] = {}
    for kind, name in places:
        wanted.setdefault(kind, set()).add(name)

    def quiet(function: Any) -> Any:
        def called(*arguments: Any, **named: Any) -> Any:
            paused[0] += 1
            try:
                return function(*arguments, **named)
            finally:
                paused[0] -= 1

        return called

    with contextlib.ExitStack() as stack:
        for kind, names in wanted.items():
            stack.callback(_watch(kind, names, found, paused))
        yield found, quiet


def _watch(kind: type, names: set[str], found: set[Place], paused: list[int]) -> Callable[[], None]:
    original = kind.__getattribute__
    had_own = "__getattribute__" in vars(kind)

    def noting(self: Any, name: str) -> Any:
        if name in names and not paused[0] and type(self) is kind:
            code = sys._getframe(1).f_code
            if not code.co_filename.endswith(_GENERATED):
                found.add((kind, name))
        return original(self, name)  # type: ignore[call-arg]

    kind.__getattribute__ = noting  # type: ignore[method-assign, assignment]

    def undo() -> None:
        if had_own:
            kind.__getattribute__ = original  # type: ignore[method-assign]
        else:
            del kind.__getattribute__

    return undo
