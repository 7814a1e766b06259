"""The faults that are put into code: Cosmic Ray's, and three of our own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from cosmic_ray.operators.provider import OperatorProvider
from parso.python.tree import Keyword, Name, PythonNode
from parso.tree import NodeOrLeaf

__all__ = ["OPERATORS", "Operator"]

Position = tuple[tuple[int, int], tuple[int, int]]


class Operator(Protocol):
    """What Cosmic Ray calls an operator."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Position]:
        """One for each way in which ``node`` can be changed."""

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf | None:
        """``node``, changed in place, or what takes its place."""


class LeaveOutStatement:
    """A call whose answer nobody takes, or a change of an object, is not made."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Position]:
        """See the base class."""
        if node.type == "simple_stmt" and _has_an_effect(node.children[0]):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> NodeOrLeaf:
        """See the base class."""
        left_out = node.children[0]
        node.children[0] = Keyword("pass", left_out.start_pos, left_out.get_first_leaf().prefix)
        return node


def _has_an_effect(statement: Any) -> bool:
    if statement.type in ("atom_expr", "power"):
        return True  # a call
    if statement.type != "expr_stmt" or "=" not in statement.children[1].get_code():
        return False
    return statement.children[0].type in ("atom_expr", "power") and not _is_in_init(statement)


def _is_in_init(statement: Any) -> bool:
    function = statement.search_ancestor("funcdef")
    return function is not None and function.name.value == "__init__"


class OppositeMembership:
    """``in`` becomes ``not in``, and the other way round."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Position]:
        """See the base class."""
        if node.type == "comparison":
            for at in _memberships(node):
                yield node.children[at].start_pos, node.children[at].end_pos

    def mutate(self, node: Any, index: int) -> NodeOrLeaf:
        """See the base class."""
        at = _memberships(node)[index]
        opposite = "not in" if node.children[at].type == "keyword" else "in"
        node.children[at] = PythonNode("comp_op", [Keyword(opposite, node.children[at].start_pos, " ")])
        return node


def _memberships(comparison: Any) -> list[int]:
    return [at for at, child in enumerate(comparison.children) if child.get_code().split()[-1:] == ["in"]]


class OtherException:
    """A clause catches another exception. Cosmic Ray's operator of this kind fails at names with a dot."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Position]:
        """See the base class."""
        for name in _caught(node):
            yield name.start_pos, name.end_pos

    def mutate(self, node: Any, index: int) -> NodeOrLeaf:
        """See the base class."""
        name = _caught(node)[index]
        first = name.get_first_leaf()
        siblings = name.parent.children
        siblings[siblings.index(name)] = Name("AnotherException", first.start_pos, first.prefix)
        return node


def _caught(node: Any) -> list[Any]:
    """Returns the exceptions that a clause names."""
    if node.type != "except_clause":
        return []
    named = node.children[1]
    if named.type == "atom" and named.children[0].value == "(":
        named = named.children[1]
        return list(named.children[::2]) if named.type == "testlist_comp" else [named]
    return [named]


def _cosmic_ray() -> dict[str, Operator]:
    provider = OperatorProvider()
    # Those with arguments put names and numbers by chance into expressions.
    names = [name for name in provider if not provider[name].arguments() and not name.endswith("ExceptionReplacer")]
    return {name: provider[name]() for name in names}


#: By name.
OPERATORS: dict[str, Operator] = {
    **_cosmic_ray(),
    "LeaveOutStatement": LeaveOutStatement(),
    "OppositeMembership": OppositeMembership(),
    "OtherException": OtherException(),
}
