"""Python sources as lists of statements, each with the shape of its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Block", "Statement", "blocks_of"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Of a node, what says nothing of its logic.
_LEFT_OUT = frozenset({"annotation", "ctx", "kind", "returns", "type_comment", "type_params"})


class Statement:
    """``shape`` is equal for trees that differ in names, texts and numbers only; ``weight`` counts its nodes."""

    def __init__(self, node: ast.stmt) -> None:
        self.node = node
        self.shape, self.weight = _shape(node)

    @cached_property
    def words(self) -> list[str]:
        """What the shape leaves open, in the order of the tree: names, texts and numbers."""
        return list(_words(self.node))


@dataclass(frozen=True, eq=False)
class Block:
    """Statements that follow each other, within ``owner``: a function or a class by its qualified name, or ``""``."""

    path: str
    owner: str
    statements: Sequence[Statement]


def blocks_of(path: str, source: str) -> Iterator[Block]:
    """Yields every block of a module. At the top and in classes, only functions are logic.

    Tests are left out: each shows its own steps, from top to bottom.
    """
    yield from _declared(path, "", ast.parse(source).body)


def _declared(path: str, owner: str, body: list[ast.stmt]) -> Iterator[Block]:
    functions = [node for node in body if isinstance(node, _FUNCTIONS) and not _is_left_out(node)]
    yield Block(path, owner, [Statement(node) for node in functions])
    for function in functions:
        yield from _executed(path, _below(owner, function.name), function)
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _declared(path, _below(owner, node.name), node.body)


def _executed(path: str, owner: str, parent: ast.AST) -> Iterator[Block]:
    for node in ast.iter_child_nodes(parent):
        yield from _executed(path, owner, node)
    for field in ("body", "orelse", "finalbody"):
        body = getattr(parent, field, None)
        if isinstance(body, list):
            yield Block(path, owner, [Statement(node) for node in body if not _is_text(node)])


def _below(owner: str, name: str) -> str:
    return f"{owner}.{name}" if owner else name


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_left_out(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Returns whether it is a test, or has nothing but a docstring."""
    return node.name.startswith("test_") or all(_is_text(one) for one in node.body)


def _parts(node: ast.AST) -> Iterator[object]:
    for field, value in ast.iter_fields(node):
        if field in _LEFT_OUT:
            continue
        if isinstance(value, list):
            yield from (one for one in value if not (isinstance(one, ast.AST) and _is_text(one)))
            yield len(value)
        else:
            yield value


def _shape(node: ast.AST) -> tuple[int, int]:
    """The tree without names and values, as a hash, and how many nodes it has."""
    shape, weight = [type(node).__name__], 1
    if isinstance(node, ast.Constant):
        return hash((*shape, type(node.value).__name__)), weight
    inner = []
    for part in _parts(node):
        if isinstance(part, ast.AST):
            one, more = _shape(part)
            inner.append(one)
            weight += more
        else:
            inner.append(part if isinstance(part, int) else hash(type(part).__name__))
    return hash((*shape, *inner)), weight


def _words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        yield repr(node.value)
        return
    for part in _parts(node):
        if isinstance(part, ast.AST):
            yield from _words(part)
        elif isinstance(part, str):
            yield part
