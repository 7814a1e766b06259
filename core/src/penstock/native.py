"""Compiled parts of connectors: C code, built by the package's ``build.py``, and loaded if it fits its sources.

A package that holds C keeps it in one directory named ``native``, and a copy of ``build.py``. One of the sources
defines ``const char *penstock_source_hash(void)``, which returns the macro ``PENSTOCK_SOURCE_HASH``.
"""

from __future__ import annotations

import ctypes as ct
import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock.printable import get_logger

__all__ = ["LIBRARY_NAME", "NativeLibrary"]

_log = get_logger(__name__)

#: Of the file next to the sources. ``build.py`` makes it.
LIBRARY_NAME = "compiled.so"


class NativeLibrary:
    """The shared library in ``directory``. Any thread.

    ``functions``: the result and the arguments of each, as ctypes has them. ctypes releases the interpreter's lock
    while one of them runs. ``without``: what users get where the library can't be used, with the name of the package.
    """

    def __init__(
        self, directory: Path, functions: Mapping[str, tuple[Any, Sequence[Any]]], *, without: str = ""
    ) -> None:
        self._path = directory / LIBRARY_NAME
        self._without = without
        self._functions = {"penstock_source_hash": (ct.c_char_p, ()), **functions}

    @property
    def problem(self) -> str:
        """Why the library can't be used, in words for the user; empty if it can."""
        return self._loaded[1]

    def usable(self) -> bool:
        """Returns whether the library can be used. If not, the first call of a process logs a warning that says why."""
        return self._usable

    @cached_property
    def _usable(self) -> bool:
        if self.problem:
            _log.warning("%s%s", f"{self._without}: " if self._without else "", self.problem)
        return not self.problem

    @property
    def functions(self) -> Any:
        """What calls the functions by their names. Raises RuntimeError if there is a problem."""
        loaded, problem = self._loaded
        if problem:
            raise RuntimeError(problem)
        return loaded

    @cached_property
    def _loaded(self) -> tuple[ct.CDLL | None, str]:
        if not self._path.exists():
            return (
                None,
                "the package was installed without its compiled part (no wheel for it, no C compiler?)",
            )
        try:
            loaded = ct.CDLL(str(self._path))
            for name, (result, arguments) in self._functions.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = result, list(arguments)
        except (OSError, AttributeError) as error:
            return None, f"the compiled part can't be loaded: {error}"
        sources = _source_hash(self._path.parent)
        if sources and loaded.penstock_source_hash().decode() != sources:
            return None, "the compiled part is not made of the C sources next to it: run the package's build.py"
        return loaded, ""


def _source_hash(directory: Path) -> str:
    """Returns what the sources are, in short, as ``build.py`` has it; empty where they are not there."""
    sources = sorted([*directory.glob("*.c"), *directory.glob("*.h")])
    digest = hashlib.sha256(b"".join(path.name.encode() + b"\0" + path.read_bytes() for path in sources))
    return digest.hexdigest()[:16] if sources else ""
