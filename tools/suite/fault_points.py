"""Fault points of the integration tests, resolved when tests are collected: a renamed class fails at once, by name.

A fault point is a string, ``module:Class.method:when:n`` (see ``sitecustomize.py`` in the tests' ``harness/faults``),
or the beginning of one (``module:Class``) that a test completes. A run whose point does not exist is never hit: after
minutes the test would say that the run never came to it.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["problem_of", "strings_in", "unresolved"]

_POINT = re.compile(r"penstock\w*(?:\.\w+)*:[A-Za-z_]\w*(?:\.\w+)?(?=:|$)")


def unresolved(module: ModuleType, parameters: Iterable[Any]) -> list[str]:
    """What is wrong with the fault points in a test module's source and values, and in its tests' parameters."""
    texts = {text for value in (vars(module), list(parameters)) for text in strings_in(value)}
    source = ast.parse(Path(module.__file__ or "").read_text("utf-8"))
    texts |= {node.value for node in ast.walk(source) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    points = sorted({point for text in texts for one in text.split(";") if (point := _point(one))})
    return [problem for point in points if (problem := problem_of(point))]


def strings_in(value: Any) -> Iterator[str]:
    """The strings in ``value``, and in the lists, tuples, sets and dictionaries it is made of."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings_in(one)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for one in value:
            yield from strings_in(one)


def _point(text: str) -> str:
    found = _POINT.match(text)
    return found.group() if found else ""


@cache
def problem_of(point: str) -> str:
    """Why ``module:Class`` or ``module:Class.method`` does not exist; empty if it does."""
    name, _, qualified = point.partition(":")
    try:
        target: Any = importlib.import_module(name)
    except ImportError as error:
        return f"{point}: {error}"
    for part in qualified.split("."):
        if not hasattr(target, part):
            return f"{point}: {getattr(target, '__name__', target)} has no {part}"
        target = getattr(target, part)
    return ""
