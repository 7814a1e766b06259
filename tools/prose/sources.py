"""Finds the prose of source files: comments, docstrings and messages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from prose.words import Finding, findings

__all__ = ["check_python", "check_shell"]

_CODE = re.compile(r"``[^`]*``|`[^`]*`")
#: Words that begin a riddle when they begin the docstring of a function.
_NO_VERBS = frozenset(
    "Also As For From How In Nothing Of That Those To What When Where Whether Which Who Why With".split()  # noqa: SIM905
)
#: A text with fewer blanks than this is a name, an option or a format, not a sentence.
_FEWEST_BLANKS = 2


def check_python(text: str) -> list[Finding]:
    """Returns the problems of the comments, strings and docstrings of a Python file, in the order of its lines."""
    found = [finding for line, prose in _comments(text) for finding in findings(prose, line)]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found += _check_docstring(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count(" ") >= _FEWEST_BLANKS:
            found += findings(_without_code(node.value), node.lineno)
    return sorted(set(found), key=lambda finding: (finding.line, finding.wrong))


def _check_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Finding]:
    """Yields a finding if the docstring starts with no verb. A property is described by a noun."""
    docstring = ast.get_docstring(function) or ""
    first = docstring.split(maxsplit=1)[0].strip(":,.;") if docstring else ""
    if first in _NO_VERBS and not any("property" in ast.unparse(one) for one in function.decorator_list):
        line = function.body[0].lineno
        yield Finding(line, f"a docstring that starts with {first!r}", "start with a verb, such as Returns or Checks")


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], _without_code(token.string)


def check_shell(text: str) -> list[Finding]:
    """Returns the phrases to avoid in a shell script, whose commands are few enough to be read as prose."""
    return list(findings(_without_code(text), 1))


def _without_code(text: str) -> str:
    """Returns the text with code blanked out, so that lines keep their numbers."""
    return _CODE.sub(lambda match: re.sub(r"[^\n]", "x", match.group()), text)
