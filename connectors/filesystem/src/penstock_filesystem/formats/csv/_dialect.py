"""The dialect of CSV files: what a reader and a writer have in common, and what only one of them needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues
from penstock_filesystem.formats._text_values import NOT_FINITE

__all__ = ["CsvDialect", "CsvReadDialect", "CsvWriteDialect"]


@dataclass(frozen=True)
class CsvDialect:
    """How cells are written in a row, and what null and an empty string look like. ``""`` turns a character off."""

    sep: str
    quote: str
    escape: str
    null_value: str
    empty_value: str
    header: bool

    def check(self, values: OptionValues) -> None:
        """Raises BadConfigurationError for a separator or a line end by which rows can't be read again."""
        if not self.sep or self.sep in "\r\n" or self.sep == self.quote:
            raise BadConfigurationError("option 'sep': write one character that is neither a line end nor the quote")
        line_sep = values["lineSep"] or ""
        if values["format"] == "csv" and {self.sep, self.quote} & set(line_sep):
            raise BadConfigurationError(f"option 'lineSep': {line_sep!r} holds what separates or quotes cells")


@dataclass(frozen=True)
class CsvReadDialect(CsvDialect):
    """The dialect of a reader. Separator, quote, escape and comment are single ASCII characters."""

    nan_value: str
    negative_inf: str
    positive_inf: str
    comment: str
    enforce_schema: bool
    trim_left: bool
    trim_right: bool
    infer_types: bool

    @classmethod
    def from_values(cls, values: OptionValues) -> CsvReadDialect:
        """Builds the dialect from a source's options. Raises BadConfigurationError."""
        dialect = cls(
            sep=_character("sep", values["sep"]),
            quote=_character("quote", values["quote"]),
            escape=_character("escape", values["escape"]),
            null_value=values["nullValue"],
            empty_value=values["emptyValue"],
            header=values["header"],
            nan_value=values["nanValue"],
            negative_inf=values["negativeInf"],
            positive_inf=values["positiveInf"],
            comment=_character("comment", values["comment"]),
            enforce_schema=values["enforceSchema"],
            trim_left=values["ignoreLeadingWhiteSpace"],
            trim_right=values["ignoreTrailingWhiteSpace"],
            infer_types=values["inferSchema"],
        )
        dialect.check(values)
        if dialect.comment and dialect.comment in (dialect.sep, dialect.quote):
            raise BadConfigurationError("option 'comment': rows may begin with what separates or quotes cells")
        return dialect

    @cached_property
    def not_finite(self) -> Mapping[str, float]:
        """Texts of numbers with a fraction, besides Java's, of which the first one counts."""
        given = [(self.nan_value, math.nan), (self.negative_inf, -math.inf), (self.positive_inf, math.inf)]
        return dict(reversed(given))

    @property
    def has_own_numbers(self) -> bool:
        """Whether those are others than Spark's."""
        return (self.nan_value, self.negative_inf, self.positive_inf) != tuple(NOT_FINITE)


@dataclass(frozen=True)
class CsvWriteDialect(CsvDialect):
    """The dialect of a writer. Separator, quote and escape are single ASCII characters: what is written can be read."""

    quote_all: bool

    @classmethod
    def from_values(cls, values: OptionValues) -> CsvWriteDialect:
        """Builds the dialect from a sink's options. Raises BadConfigurationError."""
        dialect = cls(
            sep=_character("sep", values["sep"]),
            quote=_character("quote", values["quote"]),
            escape=_character("escape", values["escape"]),
            null_value=values["nullValue"],
            empty_value=values["emptyValue"],
            header=values["header"],
            quote_all=values["quoteAll"],
        )
        dialect.check(values)
        return dialect


def _character(name: str, text: str | None) -> str:
    text = {"\\t": "\t", "\\0": "\0"}.get(text or "", text or "")
    if len(text) > 1 or not text.isascii():
        raise BadConfigurationError(f"option '{name}': {text!r} is not a single ASCII character")
    return "" if text == "\0" else text
