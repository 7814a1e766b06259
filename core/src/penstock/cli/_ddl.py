"""A look at a schema in Spark's DDL (``id long, at timestamp``) that finds slips without starting Spark.

It knows the shape and the names of types, not every rule of Spark: what passes here may still be refused there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from penstock.cli._columns import Fields
from penstock.options import nearest_hint

__all__ = ["check_ddl", "fields_of_ddl"]

_SIMPLE = (
    *("boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint", "float", "real", "double"),
    *("date", "timestamp", "timestamp_ntz", "timestamp_ltz", "string", "binary", "void", "variant"),
)
_DECIMALS = ("decimal", "dec", "numeric")
_SIZED = (*_DECIMALS, "char", "character", "varchar", "time", "geometry", "geography")
_NESTED = ("array", "map", "struct")
_TOKEN = re.compile(r"\s+|`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\w.]+|.", re.DOTALL)
_SIZE = re.compile(r"\d+|any|srid")


def check_ddl(text: str) -> list[str]:
    """Returns the names of the top-level columns. Raises ValueError that says what is wrong, with the nearest type
    name.
    """
    return list(fields_of_ddl(text))


def fields_of_ddl(text: str) -> Fields:
    """Returns the columns with their types. Raises ValueError as :func:`check_ddl` does."""
    tokens = [token for token in _TOKEN.findall(text) if not token.isspace()]
    if not tokens:
        raise ValueError("the schema is empty; write for example: id long, at timestamp")
    try:
        return _Parser(tokens).columns(end=None)
    except RecursionError:
        raise ValueError("its types are nested too deeply") from None


class _Parser:
    """Recursive descent over the tokens; ``_position`` is the next one."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._position = 0

    def _peek(self) -> str | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def _take(self) -> str | None:
        token = self._peek()
        self._position += 1
        return token

    def _accept(self, *words: str) -> bool:
        token = self._peek()
        if token is not None and token.lower() in words:
            self._position += 1
            return True
        return False

    def _expect(self, symbol: str, after: str) -> None:
        if not self._accept(symbol):
            raise ValueError(f"expected '{symbol}' after {after}, found {_shown(self._peek())}")

    def columns(self, end: str | None) -> Fields:
        """``name type, name type ...`` up to ``end``, which is taken."""
        names: list[str] = []
        types: list[Fields | str] = []
        while True:
            name = self._take()
            if name == "`":
                raise ValueError("a name begins with ` and does not end with it")
            if name is None or not re.match(r"[\w`]", name):
                raise ValueError(f"expected a column name, found {_shown(name)}")
            names.append(name.strip("`").replace("``", "`"))
            self._accept(":")
            types.append(self._type(names[-1]))
            self._column_suffix()
            if self._accept(","):
                continue
            if self._peek() is None and end is None:
                break
            self._expect(end or ",", f"column '{names[-1]}'")
            break
        times = Counter(name.lower() for name in names)
        twice = next((name for name in names if times[name.lower()] > 1), None)
        if twice is not None:
            raise ValueError(f"column '{twice}' is given twice")
        return dict(zip(names, types, strict=True))

    def _column_suffix(self) -> None:
        if self._accept("not"):
            self._expect("null", "NOT")
        if self._accept("comment"):
            self._take()

    def _type(self, column: str) -> Fields | str:
        """Takes a type. Returns its name, or the fields of a struct."""
        token = self._take()
        name = (token or "").lower()
        if name in _NESTED:
            self._expect("<", name)
            if name == "struct":
                return self.columns(end=">")
            self._type(column)
            if name == "map":
                self._expect(",", "the key's type of a map")
                self._type(column)
            self._expect(">", f"the type of {name}")
        elif name == "interval":
            while self._accept("year", "month", "day", "hour", "minute", "second", "to"):
                pass
        elif name in _SIZED:
            self._size(name)
        elif name in _SIMPLE:
            if self._accept("collate"):
                self._take()
        else:
            hint = nearest_hint(name, (*_SIMPLE, *_SIZED, *_NESTED)) if name else ""
            raise ValueError(f"column '{column}': {_shown(token)} is not a type{hint}")
        return name

    def _size(self, name: str) -> None:
        if not self._accept("("):
            return
        sizes: list[str] = []
        while True:
            token = self._take()
            if token is None or not _SIZE.fullmatch(token.lower()):
                raise ValueError(f"expected a number in {name}(...), found {_shown(token)}")
            sizes.append(token)
            if not self._accept(","):
                break
        self._expect(")", f"the size of {name}")
        if name in _DECIMALS and not _is_decimal(sizes):
            raise ValueError(f"{name}({','.join(sizes)}) must have 1 to 38 digits, not more of them fractional")


def _is_decimal(sizes: Sequence[str]) -> bool:
    """Returns whether Spark takes a decimal of that many digits, and that many of them fractional."""
    if len(sizes) > 2 or not all(size.isdecimal() and len(size) <= 2 for size in sizes):
        return False
    precision, scale = (*map(int, sizes), 0)[:2]
    return 1 <= precision <= 38 and scale <= precision


def _shown(token: str | None) -> str:
    return "the end" if token is None else f"'{token}'"
