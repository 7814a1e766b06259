"""YAML whose every value knows where it stands, so that a mistake can be reported as ``file:line:column: what``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import yaml

from penstock.options import nearest_hint
from penstock.printable import concise

__all__ = ["Document", "Located", "Mistake"]

_VARIABLE = re.compile(r"\$(?:\$\{|\{([^}:]*)(?::-([^}]*))?\})")
#: Replace the braces of ``${NAME}`` while YAML is parsed: inside ``{...}`` it would treat them as its own.
_MASK = str.maketrans("{}", "\ue000\ue001")
_UNMASK = str.maketrans("\ue000\ue001", "{}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, order=True)
class Mistake:
    """What is wrong, and where: line and column count from 1. A warning leaves the file usable."""

    line: int
    column: int
    text: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {'warning: ' if self.is_warning else ''}{concise(self.text)}"


class Document:
    """A YAML text, the environment its ``${NAME}`` values come from, and the mistakes found in it so far."""

    def __init__(self, text: str, environment: Mapping[str, str] | None = None) -> None:
        self.lines = text.splitlines()
        self.mistakes: list[Mistake] = []
        self._environment = os.environ if environment is None else environment
        self.root = self._compose(text)

    def _compose(self, text: str) -> Located | None:
        try:
            masked = _VARIABLE.sub(lambda match: match.group(0).translate(_MASK), text)
            node = yaml.compose(masked, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            what = ", ".join(part for part in (error.context, error.problem) if part)
            hint = "; a text with ': ' in it needs quotes" if "mapping values" in what else ""
            self.add(mark, f"not valid YAML: {what}{hint}")
            return None
        except yaml.YAMLError as error:
            self.add(None, f"not valid YAML: {error}")
            return None
        except RecursionError:
            self.add(None, "not valid YAML: it is nested too deeply")
            return None
        if node is None:
            self.add(None, "the file is empty")
            return None
        return Located(self, node)

    def add(self, mark: yaml.Mark | None, text: str, *, is_warning: bool = False) -> None:
        """Records a mistake at ``mark`` (the file's beginning without one)."""
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        self.mistakes.append(Mistake(line, column, text, is_warning))

    def expand(self, node: yaml.ScalarNode) -> str:
        """Returns the scalar's text with ``${NAME}`` and ``${NAME:-default}`` filled in; ``$${`` stands for ``${``."""

        def value(match: re.Match[str]) -> str:
            name, default = match.group(1), match.group(2)
            if name is None:
                return "${"
            if not _VARIABLE_NAME.fullmatch(name):
                self._add_within(node, match.group(0), f"'{match.group(0)}' does not name an environment variable")
                return ""
            # As in a shell, ':-' also replaces a variable that is set to nothing.
            found = self._environment.get(name)
            if not found and default is not None:
                return default
            if found is None:
                self._add_within(
                    node,
                    match.group(0),
                    f"environment variable {name} is not set; set it, or write ${{{name}:-default}}",
                )
            return found or ""

        return _VARIABLE.sub(value, node.value.translate(_UNMASK))

    def _add_within(self, node: yaml.ScalarNode, piece: str, text: str) -> None:
        """Records a mistake at the place of ``piece`` in the source of ``node``."""
        start = node.start_mark
        for number in range(start.line, min(node.end_mark.line + 1, len(self.lines))):
            column = self.lines[number].find(piece, start.column if number == start.line else 0)
            if column >= 0:
                self.mistakes.append(Mistake(number + 1, column + 1, text))
                return
        self.add(start, text)


class Located:
    """One value of a document. Its readers return ``None`` where the value has the wrong type, and record why."""

    def __init__(self, document: Document, node: yaml.Node, name: str = "") -> None:
        self._document = document
        self._node = node
        self.name = name

    def complain(self, text: str, *, is_warning: bool = False) -> None:
        """Records a mistake at this value."""
        self._document.add(self._node.start_mark, text, is_warning=is_warning)

    @property
    def is_mapping(self) -> bool:
        """Whether the value is ``{key: value, ...}``."""
        return isinstance(self._node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        """Whether the value is ``[value, ...]``."""
        return isinstance(self._node, yaml.SequenceNode)

    @property
    def is_null(self) -> bool:
        """Whether nothing stands after the key."""
        return self._node.tag == "tag:yaml.org,2002:null"

    def text(self) -> str | None:
        """Returns a scalar as it was written (``0123`` stays ``0123``), with variables filled in."""
        if not isinstance(self._node, yaml.ScalarNode):
            self.complain(f"'{self.name}' must be a single value, not a {self._kind()}")
            return None
        if self.is_null:
            self.complain(f"'{self.name}' has no value")
            return None
        return self._document.expand(self._node)

    def items(self) -> list[Located]:
        """Returns the values of a list."""
        return [Located(self._document, node, self.name) for node in self._node.value]

    def mapping(self, what: str) -> dict[str, tuple[Located, Located]] | None:
        """Key → (the key's place, its value). ``what`` says in an error what was expected."""
        if not isinstance(self._node, yaml.MappingNode):
            found = "nothing" if self.is_null else f"a {self._kind()}"
            self.complain(
                f"'{self.name}' must be {what}, found {found}" if self.name else f"expected {what}, found {found}"
            )
            return None
        entries: dict[str, tuple[Located, Located]] = {}
        for key_node, value_node in self._node.value:
            key = Located(self._document, key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                key.complain("a key must be a single word")
                continue
            name = str(key_node.value).translate(_UNMASK)
            if name in entries:
                key.complain(f"key '{name}' is given twice (first in line {entries[name][0].line})")
                continue
            entries[name] = (Located(self._document, key_node, name), Located(self._document, value_node, name))
        return entries

    def section(self, what: str, known: Iterable[str], required: Iterable[str] = ()) -> dict[str, Located] | None:
        """Returns a mapping that has only ``known`` keys, and all of ``required``."""
        entries = self.mapping(what)
        if entries is None:
            return None
        known = list(known)
        for name, (key, _) in entries.items():
            if name not in known:
                where = f" in '{self.name}'" if self.name else ""
                hint = nearest_hint(name, known) or f"; known: {', '.join(known)}"
                key.complain(f"unknown key '{name}'{where}{hint}")
        for name in required:
            if name not in entries:
                where = f"'{self.name}' needs" if self.name else "the pipeline needs"
                self.complain(f"{where} the key '{name}'")
        return {name: value for name, (_, value) in entries.items() if name in known}

    @property
    def line(self) -> int:
        """The line it begins in, from 1."""
        return self.position[0]

    @property
    def position(self) -> tuple[int, int]:
        """The line and the column it begins in, from 1."""
        mark = self._node.start_mark
        return int(mark.line) + 1, int(mark.column) + 1

    def _kind(self) -> str:
        return "mapping" if self.is_mapping else "list" if self.is_list else "single value"
