"""The dialect of JSON files, and how types are inferred from them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.options import OptionValues
from penstock.serialization.values import JsonDialect

__all__ = ["JsonReadDialect"]


@dataclass(frozen=True)
class JsonReadDialect(JsonDialect):
    """The dialect of a reader.

    Inference takes values that are neither objects nor lists ``as_strings``, numbers with a fraction and texts that
    hold numbers ``as_decimals``, and leaves a field out with ``drops_nulls`` if only nulls were in it.
    """

    as_strings: bool = False
    as_decimals: bool = False
    drops_nulls: bool = False

    @classmethod
    def from_values(cls, values: OptionValues) -> JsonReadDialect:
        """Builds the dialect from a source's options."""
        return cls(
            single_quotes=values["allowSingleQuotes"],
            non_numeric=values["allowNonNumericNumbers"],
            comments=values["allowComments"],
            unquoted_names=values["allowUnquotedFieldNames"],
            leading_zeros=values["allowNumericLeadingZeros"],
            any_escape=values["allowBackslashEscapingAnyCharacter"],
            control_characters=values["allowUnquotedControlChars"],
            as_strings=values["primitivesAsString"],
            as_decimals=values["prefersDecimal"],
            drops_nulls=values["dropFieldIfAllNull"],
        )
