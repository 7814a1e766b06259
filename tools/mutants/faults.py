"""Which mutants there are of a file."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import parso

from mutants.operators import OPERATORS, Operator

__all__ = ["Mutant", "mutants_of"]


@dataclass(frozen=True)
class Mutant:
    """A file with one fault. ``before`` and ``after`` are the lines that differ; ``source`` is the whole file.

    ``occurrence`` counts those that agree in all else, from 0.
    """

    file: str
    function: str
    operator: str
    before: str
    after: str
    line: int = field(compare=False)
    source: str = field(compare=False, repr=False)
    occurrence: int = 0

    @property
    def key(self) -> str:
        """Names it, also after lines have moved."""
        return f"{self.function} | {self.operator} | {self.before} → {self.after} | {self.occurrence}"

    def __str__(self) -> str:
        """For a person."""
        return f"{self.file}:{self.line}: {self.function}: {self.before} → {self.after}  [{self.operator}]"


def mutants_of(root: Path, file: str) -> list[Mutant]:
    """All of them, in the order of the file; what would be no Python is left out."""
    source = (root / file).read_text()
    tree = parso.parse(source)
    found: list[Mutant] = []
    seen: Counter[str] = Counter()
    for node in _nodes(tree):
        for name, operator in OPERATORS.items():
            for index, _ in enumerate(list(operator.mutation_positions(node))):
                changed = _changed(source, node, operator, index)
                if not _compiles(changed, file):
                    continue
                line, before, after = _difference(source, changed)
                mutant = Mutant(file, _function_of(node), name, before, after, line, changed)
                found.append(replace(mutant, occurrence=seen[mutant.key]))
                seen[mutant.key] += 1
    return sorted(found, key=lambda mutant: mutant.line)


def _compiles(source: str, file: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, file, "exec", dont_inherit=True)
        except SyntaxError:
            return False
    return True


def _nodes(node: Any) -> Iterator[Any]:
    """Every node whose meaning a test could notice."""
    if _is_left_out(node):
        return
    yield node
    for child in getattr(node, "children", ()):
        yield from _nodes(child)


def _is_left_out(node: Any) -> bool:
    """Imports, annotations, what is there for the type checker alone, and what goes to the log."""
    parent = node.parent
    if node.type in ("import_name", "import_from", "tfpdef"):
        return True
    if node.type == "operator" and parent.type == "parameters":  # the star before what is named
        return True
    if node.type == "simple_stmt":
        return bool(node.children[0].get_code(include_prefix=False).startswith("_log."))
    if node.type == "if_stmt":
        return bool(node.children[1].get_code().strip() == "TYPE_CHECKING")
    if parent is None:
        return False
    if parent.type == "annassign":  # what is assigned stays
        return bool(node is parent.children[1])
    return bool(parent.type == "funcdef" and node is parent.annotation)


def _changed(source: str, node: Any, operator: Operator, index: int) -> str:
    """The source with the fault. ``node`` is as before on return: to parse the file anew for each fault takes long."""
    start, end = _offset(source, node.get_start_pos_of_prefix()), _offset(source, node.end_pos)
    saved = [(one, list(one.children) if hasattr(one, "children") else one.value) for one in _subtree(node)]
    try:
        mutated = operator.mutate(node, index)
        text = "" if mutated is None else mutated.get_code()
    finally:
        for one, before in saved:
            if isinstance(before, list):
                one.children[:] = before
            else:
                one.value = before
    return source[:start] + text + source[end:]


def _subtree(node: Any) -> Iterator[Any]:
    yield node
    for child in getattr(node, "children", ()):
        yield from _subtree(child)


def _offset(source: str, position: tuple[int, int]) -> int:
    line, column = position
    at = 0
    for _ in range(line - 1):
        at = source.index("\n", at) + 1
    return at + column


def _difference(before: str, after: str) -> tuple[int, str, str]:
    """The first line that differs, and those that do of both, each as one line."""
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    last = 0
    while last < min(len(before), len(after)) - first and before[-1 - last] == after[-1 - last]:
        last += 1
    start = before.rfind("\n", 0, first) + 1

    def lines(text: str) -> str:
        end = text.find("\n", max(first, len(text) - last))
        return " ".join(text[start : end if end >= 0 else len(text)].split())

    return before.count("\n", 0, first) + 1, lines(before), lines(after)


def _function_of(node: Any) -> str:
    names: list[str] = []
    while (node := node.parent) is not None:
        if node.type in ("funcdef", "classdef"):
            names.insert(0, node.name.value)
    return ".".join(names)
