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
#: A text with fewer blanks than this is a name, an option or a format, not a sentence.
_FEWEST_BLANKS = 2


def check_python(text: str) -> list[Finding]:
    """Returns the phrases to avoid in the comments and strings of a Python file, in the order of its lines."""
    found = [finding for line, prose in _comments(text) for finding in findings(prose, line)]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count(" ") >= _FEWEST_BLANKS:
            found += findings(_without_code(node.value), node.lineno)
    return sorted(set(found), key=lambda finding: (finding.line, finding.wrong))


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
