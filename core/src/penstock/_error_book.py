"""Error codes as data: what each stands for, where it is raised, and which one an error has."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

__all__ = ["CODE", "ErrorBook", "ErrorCode", "book_of", "code_for"]

#: A code in a text.
CODE = re.compile(r"PENSTOCK-[A-Z][A-Z0-9]*-\d{3}")
_AREA = re.compile(r"[A-Z][A-Z0-9]*")
_MOST = 999


@dataclass(frozen=True)
class ErrorCode:
    """A situation that a person can look up: the same causes, and the same remedies.

    ``raised_in`` names modules: an error that is made there, or below it, has this code unless it is given another.
    ``module:Class`` is for one class of errors there. ``remedies`` begin with a verb, most likely first.
    """

    code: str
    title: str
    causes: Sequence[str]
    remedies: Sequence[str]
    raised_in: Sequence[str] = ()


class ErrorBook:
    """The codes of a package, ``PENSTOCK-<area>-NNN``. A package keeps its book in its module ``_error_codes``.

    ``retired`` holds numbers that were used once: they are not given to anything else.
    """

    def __init__(self, area: str, *, retired: Iterable[int] = ()) -> None:
        if not _AREA.fullmatch(area):
            raise ValueError(f"'{area}' is no area of error codes: write capital letters and digits")
        self.area = area
        self._retired = frozenset(retired)
        self._by_code: dict[str, ErrorCode] = {}

    def add(
        self,
        number: int,
        title: str,
        *,
        causes: Sequence[str],
        remedies: Sequence[str],
        raised_in: Sequence[str] = (),
    ) -> str:
        """Declares a code, and returns it as text. Raises ValueError for a number that is used, or retired."""
        code = f"PENSTOCK-{self.area}-{number:03d}"
        if not 0 < number <= _MOST or number in self._retired or code in self._by_code:
            raise ValueError(f"{code} is used or retired, or not from 1 to {_MOST}: take another number")
        self._by_code[code] = ErrorCode(code, title, tuple(causes), tuple(remedies), tuple(raised_in))
        return code

    def __iter__(self) -> Iterator[ErrorCode]:
        return iter(sorted(self._by_code.values(), key=lambda one: one.code))

    def find(self, code: str) -> ErrorCode | None:
        """Returns what a code stands for; ``None`` if it is not of this book."""
        return self._by_code.get(code)

    def code_in(self, module: str, classes: Sequence[str]) -> str | None:
        """Returns the code of an error that is made in ``module``. ``classes`` are the names of its class and bases.

        The innermost module that is named decides, in it a named class before the others.
        """
        best: tuple[int, int, str] | None = None
        for one in self._by_code.values():
            for place in one.raised_in:
                named, _, kind = place.partition(":")
                is_there = not named or module == named or module.startswith(f"{named}.")
                if is_there and (not kind or kind in classes):
                    rank = (len(named), -classes.index(kind) if kind else -len(classes), one.code)
                    best = rank if best is None or rank[:2] > best[:2] else best
        return best[2] if best else None


@cache
def book_of(package: str) -> ErrorBook | None:
    """Returns the book of a package: ``BOOK`` in its module ``_error_codes``. ``None`` if it has none."""
    module = "error_codes" if package == "penstock" else "_error_codes"
    try:
        found = importlib.import_module(f"{package}.{module}")
    except (ImportError, ValueError):
        return None
    book = getattr(found, "BOOK", None)
    return book if isinstance(book, ErrorBook) else None


@cache
def code_for(module: str, classes: tuple[str, ...]) -> str:
    """Returns the code of an error of ``classes`` that is made in ``module``: the package's, or a general one."""
    package = module.partition(".")[0]
    # A module of a user's that a job imports is no place to look for more modules.
    book = book_of(package) if "." in module and package != "__main__" else None
    code = book.code_in(module, classes) if book is not None else None
    if code is None:
        core = book_of("penstock")
        code = core.code_in("", classes) if core is not None else None
    return code or ""
