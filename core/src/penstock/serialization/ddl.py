"""Types written in Spark's DDL, as Arrow types; without Spark, which connectors do not know."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pyarrow as pa

from penstock.options import nearest_hint

__all__ = ["format_type", "parse_type", "shown_type"]

_SIMPLE: Mapping[str, Callable[[], pa.DataType]] = {
    **dict.fromkeys(("boolean", "bool"), pa.bool_),
    **dict.fromkeys(("tinyint", "byte"), pa.int8),
    **dict.fromkeys(("smallint", "short"), pa.int16),
    **dict.fromkeys(("int", "integer"), pa.int32),
    **dict.fromkeys(("bigint", "long"), pa.int64),
    **dict.fromkeys(("float", "real"), pa.float32),
    "double": pa.float64,
    "date": pa.date32,
    **dict.fromkeys(("timestamp", "timestamp_ltz"), lambda: pa.timestamp("us", tz="UTC")),
    "timestamp_ntz": lambda: pa.timestamp("us"),
    "string": pa.string,
    "binary": pa.binary,
}
_TEXTS = ("char", "character", "varchar")
_DECIMALS = ("decimal", "dec", "numeric")
_NESTED = ("array", "map", "struct")
_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\w+|[^\s\w]", re.DOTALL)


def parse_type(text: str) -> pa.DataType:
    """Returns the type of ``text``: columns (``id long, at timestamp``, a struct) or one type (``array<int>``).

    Types are those that Spark gives Arrow columns (timestamps in microseconds and UTC). Raises ValueError.
    """
    tokens = _TOKEN.findall(text)
    if not tokens:
        raise ValueError("the schema is empty; write for example: id long, at timestamp")
    parser = _Parser(tokens)
    alone = len(tokens) == 1 or tokens[1] in ("<", "(")
    return parser.whole_type() if alone else pa.struct(parser.fields(end=None))


_NAMES: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
}


def format_type(type_: pa.DataType) -> str:
    """Returns the DDL of a type, as :func:`parse_type` reads it. Raises ValueError for a type that Spark has not got.

    Timestamps become those of Spark, whatever their unit and their zone; what a dictionary holds counts for it.
    """
    if type_ in _NAMES:
        return _NAMES[type_]
    if pa.types.is_timestamp(type_):
        return "timestamp_ntz" if type_.tz is None else "timestamp"
    if pa.types.is_decimal(type_) and type_.precision <= 38 and 0 <= type_.scale <= type_.precision:
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_fixed_size_binary(type_):
        return "binary"
    if pa.types.is_dictionary(type_):
        return format_type(type_.value_type)
    if pa.types.is_struct(type_):
        return f"struct<{', '.join(f'{_quoted(field.name)}: {format_type(field.type)}' for field in type_)}>"
    if pa.types.is_map(type_):
        return f"map<{format_type(type_.key_type)}, {format_type(type_.item_type)}>"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return f"array<{format_type(type_.value_type)}>"
    raise ValueError(f"Spark has no type for {type_}")


def shown_type(type_: pa.DataType, other: pa.DataType | None = None) -> str:
    """Returns a type as errors and warnings show it: in Spark's words, which users write, or else in Arrow's.

    Those of Arrow also distinguish it from ``other``, where Spark has one type for both.
    """
    try:
        shown = format_type(type_)
    except ValueError:
        return str(type_)
    return str(type_) if other is not None and shown == shown_type(other) else shown


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`{}`".format(name.replace("`", "``"))


class _Parser:
    """Recursive descent; ``_next`` is the position of the next token."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._next = 0

    def whole_type(self) -> pa.DataType:
        found = self._type()
        if self._peek():
            raise ValueError(f"unexpected '{self._peek()}'")
        return found

    def fields(self, end: str | None) -> list[pa.Field]:
        """``name type`` or ``name: type``, separated by commas, up to ``end``, which is taken."""
        found: list[pa.Field] = []
        while end is None or not self._accept(end):
            if found:
                self._expect(",")
            name = self._take()
            if not (name[:1] == "`" or name.isidentifier()):
                raise ValueError(f"expected a column's name, found '{name}'")
            name = name[1:-1].replace("``", "`") if name[0] == "`" else name
            self._accept(":")
            column_type = self._type()
            nullable = not self._accept("not")
            if not nullable:
                self._expect("null")
            if self._accept("comment"):
                self._take()
            found.append(pa.field(name, column_type, nullable))
            if end is None and not self._peek():
                break
        return found

    def _type(self) -> pa.DataType:
        word = self._take()
        low = word.lower()
        if low in _SIMPLE:
            return _SIMPLE[low]()
        if low in _TEXTS:
            self._sizes(least=1, most=1)
            return pa.string()
        if low in _DECIMALS:
            sizes = self._sizes(least=1, most=2) if self._peek() == "(" else [10]
            precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
            if not 0 <= scale <= precision <= 38 or precision < 1:
                raise ValueError(f"decimal({precision},{scale}) must have 1 to 38 digits, not more of them fractional")
            return pa.decimal128(precision, scale)
        if low not in _NESTED:
            known = (*_SIMPLE, *_TEXTS, *_DECIMALS, *_NESTED)
            raise ValueError(
                f"'{word}' is not a type{nearest_hint(low, known) if word else '; the schema ends too early'}"
            )
        self._expect("<")
        return self._nested(low)

    def _nested(self, kind: str) -> pa.DataType:
        if kind == "struct":
            return pa.struct(self.fields(end=">"))
        first = self._type()
        if kind == "array":
            self._expect(">")
            return pa.list_(pa.field("element", first))
        self._expect(",")
        value = self._type()
        self._expect(">")
        return pa.map_(first, value)

    def _sizes(self, least: int, most: int) -> list[int]:
        """Numbers in brackets."""
        self._expect("(")
        sizes: list[int] = []
        while not self._accept(")"):
            if sizes:
                self._expect(",")
            size = self._take()
            if not size.isdigit():
                raise ValueError(f"expected a number in the brackets of a type, found '{size}'")
            sizes.append(int(size))
        if not least <= len(sizes) <= most:
            raise ValueError(f"the brackets of a type hold {least} to {most} numbers, not {len(sizes)}")
        return sizes

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _accept(self, word: str) -> bool:
        if self._peek().lower() != word:
            return False
        self._next += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise ValueError(f"expected '{word}', found '{self._peek() or 'the end'}'")
