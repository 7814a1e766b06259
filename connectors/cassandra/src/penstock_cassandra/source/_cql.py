"""Queries of users: taken apart far enough to know whether they can be split by token, and put together again."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from penstock.errors import BadConfigurationError
from penstock_cassandra._tables import quoted

__all__ = ["Select", "parse_select", "split_conditions"]

_TOKEN = re.compile(
    r"""\s+|--[^\n]*|//[^\n]*|/\*.*?\*/|(?P<word>[A-Za-z][A-Za-z0-9_]*)|(?P<name>"(?:[^"]|"")*")"""
    r"""|(?P<text>'(?:[^']|'')*'|\$\$.*?\$\$)|(?P<number>[0-9][0-9A-Za-z.+\-]*)|(?P<sign><=|>=|!=|[^\s])""",
    re.DOTALL,
)
_AGGREGATES = {"count", "sum", "avg", "min", "max"}
_PLAIN_NAME = re.compile(r"[a-z][a-z0-9_]*")
_CLAUSES = ("WHERE", "GROUP", "ORDER", "PER", "LIMIT", "ALLOW")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind == "word" else ""

    @property
    def identifier(self) -> str:
        return self.text[1:-1].replace('""', '"') if self.kind == "name" else self.text.lower()


@dataclass(frozen=True)
class Select:
    """A query without its end: ``columns`` and ``where`` as CQL. ``tail``: PER PARTITION LIMIT, if there is one."""

    columns: str
    keyspace: str
    table: str
    where: str = ""
    tail: str = ""
    filtering: bool = False

    def cql(self, condition: str = "", *, filtering: bool = False) -> str:
        """Returns the whole query, with one more condition."""
        conditions = " AND ".join(part for part in (self.where, condition) if part)
        text = f"SELECT {self.columns} FROM {quoted(self.keyspace)}.{quoted(self.table)}"  # noqa: S608 - quoted
        text += f" WHERE {conditions}" if conditions else ""
        text += f" {self.tail}" if self.tail else ""
        return text + (" ALLOW FILTERING" if self.filtering or filtering else "")


def _tokens(cql: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(cql):
        if match.lastgroup is not None:
            found.append(_Token(match.lastgroup, match.group()))
    if found and found[-1].text == ";":
        found.pop()
    return found


def _text(tokens: list[_Token]) -> str:
    return " ".join(token.text for token in tokens)


def _refuse(why: str) -> BadConfigurationError:
    return BadConfigurationError(f"option 'query' can't be read in splits: {why}")


def parse_select(cql: str, keyspace: str) -> Select:
    """``cql`` taken apart; ``keyspace`` is where a table without one is. Raises BadConfigurationError that says why."""
    tokens = _tokens(cql)
    words = [token.word for token in tokens]
    if not words or words[0] != "SELECT":
        raise _refuse("it does not begin with SELECT")
    if any(token.text == ";" for token in tokens):
        raise _refuse("it is more than one statement")
    if any(token.text in ("?", ":") for token in tokens):
        raise _refuse("it has a place for a value (? or :name), and nothing provides one")
    for word, why in (("DISTINCT", "DISTINCT returns partitions, not rows"), ("JSON", "JSON has no columns")):
        if words[1:2] == [word]:
            raise _refuse(why)
    start = _top_level(tokens, "FROM", 1)
    if start is None:
        raise _refuse("it has no FROM")
    columns = tokens[1:start]
    _check_columns(columns)
    at = start + 1
    name = [tokens[at].identifier] if at < len(tokens) else [""]
    if at + 2 < len(tokens) and tokens[at + 1].text == ".":
        name.append(tokens[at + 2].identifier)
        at += 2
    if len(name) == 1 and not keyspace:
        raise BadConfigurationError("option 'query' names a table without its keyspace: write keyspace.table")
    clauses = _clauses(tokens, at + 1)
    return Select(
        _text(columns),
        name[0] if len(name) > 1 else keyspace,
        name[-1],
        _text(clauses.get("WHERE", [])),
        _text(clauses.get("PER", [])),
        "ALLOW" in clauses,
    )


def _top_level(tokens: list[_Token], word: str, start: int) -> int | None:
    depth = 0
    for at in range(start, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[at].text, 0)
        if depth == 0 and tokens[at].word == word:
            return at
    return None


def _check_columns(tokens: list[_Token]) -> None:
    for token, after in itertools.pairwise(tokens):
        if token.kind == "word" and token.text.lower() in _AGGREGATES and after.text == "(":
            raise _refuse(f"{token.text}() is an aggregate: each split would have one. Aggregate with Spark")


def _clauses(tokens: list[_Token], at: int) -> dict[str, list[_Token]]:
    found: dict[str, list[_Token]] = {}
    current: list[_Token] = []
    while at < len(tokens):
        word = tokens[at].word
        if word in _CLAUSES and not (word == "LIMIT" and current and current[-1].word == "PARTITION"):
            reason = {
                "GROUP": "GROUP BY aggregates. Group with Spark",
                "ORDER": "ORDER BY has no meaning over splits. Sort with Spark",
                "LIMIT": "LIMIT would be applied to each split. Use .limit() of Spark",
            }.get(word)
            if reason:
                raise _refuse(reason)
            # What belongs to a clause comes after its word; PER PARTITION LIMIT is kept as a whole.
            current = found[word] = [tokens[at]] if word == "PER" else []
        elif not found:
            raise _refuse(f"'{tokens[at].text}' after the table is not understood")
        else:
            current.append(tokens[at])
        at += 1
    return found


def split_conditions(where: str) -> list[tuple[str, str]]:
    """Returns the conditions of a WHERE as (column, operator); the column of ``token(…)`` is ``token()``, of others
    ``()``.
    """
    tokens = _tokens(where)
    found: list[tuple[str, str]] = []
    depth, start = 0, 0
    for at, token in enumerate([*tokens, _Token("word", "AND")]):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and token.word == "AND":
            if at > start:
                found.append(_condition(tokens[start:at]))
            start = at + 1
    return found


def _condition(tokens: list[_Token]) -> tuple[str, str]:
    if tokens[0].word == "TOKEN" and len(tokens) > 1 and tokens[1].text == "(":
        return "token()", ""
    if tokens[0].kind not in ("word", "name"):
        return "()", ""
    operator = tokens[1].word or tokens[1].text if len(tokens) > 1 else ""
    return tokens[0].identifier, operator
