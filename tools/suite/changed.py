"""Which test files a change can break: by import, by package, and by what a file mentions.

The graph has the repository's Python files as nodes. A file needs what it imports, anywhere in it and through any
number of steps; the connectors whose formats it names (``"penstock.kafka"``), since Spark finds those by entry points;
modules and job scripts whose names it holds as strings; and the ``conftest.py`` files above it. A changed file outside
this graph (a page, a golden file, C) concerns the tests of its directory and of its package, and every test that
mentions it or its directory. What sets up or runs the tests concerns all of them.

This errs towards too many. ``scripts/test`` without arguments is what decides.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import pytest

__all__ = ["Affected", "Graph", "affected", "changed_files"]

#: Where modules are imported from.
_SOURCES = (
    "core/src",
    "connectors/*/src",
    "examples/*/src",
    "tools",
    "integration-tests",
)
#: Packages of the root, by their own name.
_PACKAGES = ("benchmarks",)
_JOBS = ("integration-tests/harness/jobs",)
#: A change of these concerns every test.
_EVERYTHING = re.compile(
    r"(conftest\.py|pyproject\.toml|poetry\.lock|requirements-dev\.txt|scripts/(setup|test)|\.ci/.*|tools/suite/(?!changed).*)"
)
#: These look at all sources.
_ALWAYS = ("core/tests/test_import_direction.py", "core/tests/test_docs.py", "tools/tests/test_public_api.py")
_FORMAT = re.compile(r"penstock\.([a-z]\w*)")


def affected(root: Path, commit: str) -> Affected:
    """What a change since ``commit`` concerns, what is not committed included."""
    return Affected(Graph(root), changed_files(root, commit))


def changed_files(root: Path, commit: str) -> list[str]:
    """Paths below ``root`` that differ from where this branch left ``commit``'s, or are new."""
    base = _git(root, "merge-base", commit, "HEAD")[0]
    return sorted({*_git(root, "diff", "--name-only", base), *_git(root, "ls-files", "--others", "--exclude-standard")})


def _git(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise pytest.UsageError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


class Graph:
    """The repository's Python files and what each needs."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._needs: dict[Path, set[Path]] = {}
        self._strings: dict[Path, set[str]] = {}

    @cached_property
    def modules(self) -> dict[str, Path]:
        """Files by the name they are imported by."""
        found = {}
        folders = [(source, source) for pattern in _SOURCES for source in self._root.glob(pattern)]
        folders += [(self._root, self._root / package) for package in _PACKAGES]
        for base, folder in folders:
            for path in folder.rglob("*.py"):
                parts = path.relative_to(base).with_suffix("").parts
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        return found

    @cached_property
    def _jobs(self) -> dict[str, Path]:
        return {path.stem: path for folder in _JOBS for path in (self._root / folder).glob("*.py")}

    @cached_property
    def _packages(self) -> dict[str, list[Path]]:
        """All files of each importable package at the top."""
        packages: dict[str, list[Path]] = {}
        for name, path in self.modules.items():
            packages.setdefault(name.partition(".")[0], []).append(path)
        return packages

    def closure(self, path: Path) -> set[Path]:
        """The file itself and everything that it needs."""
        found, todo = set(), [path, *self._conftests(path)]
        while todo:
            one = todo.pop()
            if one not in found:
                found.add(one)
                todo += self.needs(one)
        return found

    def strings(self, path: Path) -> set[str]:
        """The string constants of a file."""
        self.needs(path)
        return self._strings[path]

    def needs(self, path: Path) -> set[Path]:
        """What a file needs directly."""
        if path not in self._needs:
            tree = ast.parse(path.read_text("utf-8"))
            self._strings[path] = set(_texts(tree))
            names = {*_imports(tree), *(text for text in self._strings[path] if "." in text)}
            self._needs[path] = {self.modules[name] for name in names if name in self.modules}
            if self.is_test_code(path):  # elsewhere these are words in messages
                self._needs[path] |= {self._jobs[name] for name in self._strings[path] if name in self._jobs}
                for name in _FORMAT.findall(" ".join(self._strings[path])):
                    self._needs[path].update(self._packages.get(f"penstock_{name}", ()))
        return self._needs[path]

    def is_test_code(self, path: Path) -> bool:
        """Whether the file is no part of what is published."""
        return "src" not in path.relative_to(self._root).parts

    def _conftests(self, path: Path) -> list[Path]:
        # Without the repository's own, which concerns everything.
        folders = [folder for folder in path.parents if folder.is_relative_to(self._root) and folder != self._root]
        return [folder / "conftest.py" for folder in folders if (folder / "conftest.py").exists()]


class Affected:
    """The test files that a change concerns."""

    def __init__(self, graph: Graph, files: Iterable[str]) -> None:
        self._graph = graph
        self._root = graph._root
        self.files = list(files)
        self.everything = [file for file in self.files if _EVERYTHING.fullmatch(file)]
        known = set(graph.modules.values()) | set(graph._jobs.values())
        self._nodes = {self._root / file for file in self.files if file.endswith(".py")}
        outside = [Path(file) for file in self.files if self._root / file not in known]
        self._others = [path for path in outside if not path.name.startswith("test_")]

    def includes(self, path: Path) -> bool:
        """Whether the tests of this file are to run."""
        relative = str(path.relative_to(self._root))
        if self.everything or relative in _ALWAYS:
            return bool(self.files)
        closure = self._graph.closure(path)
        if closure & self._nodes:
            return True
        words = set().union(*(self._graph.strings(one) for one in closure if self._graph.is_test_code(one)))
        return any(self._concerns(other, path, closure, words) for other in self._others)

    def _concerns(self, other: Path, test: Path, closure: set[Path], words: set[str]) -> bool:
        """Whether a file outside the graph matters to a test file: it is beside it, in a package it uses, or named."""
        place = self._root / other.parent
        if "src" in other.parts:
            return any(one.is_relative_to(place) or place.is_relative_to(one.parent) for one in closure if one != test)
        if place != self._root and place.is_relative_to(test.parent):
            return True
        names = {other.name, other.stem, *other.parts[:2]} if len(other.parts) > 1 else {other.name}
        return any(name in words or any(f"/{name}" in word or f"{name}/" in word for word in words) for name in names)


def _imports(tree: ast.AST) -> Iterator[str]:
    """Names of modules, and of what is taken from them, which may be modules as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from _with_parents(node.module)
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


def _texts(tree: ast.AST) -> Iterator[str]:
    """String constants, but for docstrings."""
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])
