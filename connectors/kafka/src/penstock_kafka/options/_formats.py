"""Options of record formats, the same for keys and values, sources and sinks."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionValues
from penstock_kafka.config import is_secret_format_option
from penstock_kafka.options._ddl import parse_type

__all__ = ["FormatSettings", "format_options"]

_RAW = ("binary", "string")


def format_options(part: str, *, reading: bool) -> tuple[Option, ...]:
    """The options of ``part``, "key" or "value"."""
    if reading:
        what = (
            f"How the {part} is decoded: binary (not at all), string, json, avro, a format of another package by its "
            "entry point's name, or module:function"
        )
        schema = (
            f"What the {part} is decoded as: a schema in DDL such as 'id long, at timestamp', or for avro an Avro "
            "schema as JSON; an alternative to .schema(…)"
        )
    else:
        what = (
            f"How the {part} column is encoded: binary (a column of strings or bytes as it is), json or avro (from a "
            "struct), a format of another package by its entry point's name, or module:function"
        )
        schema = f"For avro: the Avro schema to write the {part} with, as JSON; unset, derived from the column"
    return (
        Option(f"{part}.format", what, default="binary"),
        Option(f"{part}.schema", schema),
        Option(
            f"{part}.format.*",
            f"Options of the {part}'s format, such as {part}.format.schema.registry.url; see 'Record formats'",
            secret_names=is_secret_format_option,
            credentials=(f"{part}.format.basic.auth.user.info",),
        ),
    )


@dataclass(frozen=True, repr=False)
class FormatSettings:
    """A format's name, the options for it, and the type to decode to where the user named one.

    ``options`` may hold secrets, which the repr hides.
    """

    name: str
    options: tuple[tuple[str, str], ...] = ()
    type: pa.DataType | None = None

    @classmethod
    def from_values(cls, values: OptionValues, part: str, *, reading: bool) -> FormatSettings:
        """The settings of ``part``, "key" or "value". Raises BadConfigurationError for what does not go together."""
        name = values[f"{part}.format"].strip()
        name = name.lower() if name.lower() in (*_RAW, "json", "avro") else name
        options = {key.lower(): text for key, text in values.with_prefix(f"{part}.format.").items()}
        type_ = None
        if schema := values[f"{part}.schema"]:
            if schema.lstrip()[:1] in ("{", "[", '"'):
                options = {**_avro(part, name, options), "schema": schema}
            else:
                type_ = _ddl(part, name, schema, reading=reading)
        return cls(name, tuple(sorted(options.items())), type_)

    @property
    def is_raw(self) -> bool:
        """Whether bytes are taken as they are."""
        return self.name == "binary"

    def __repr__(self) -> str:
        shown = {key: "***" if is_secret_format_option(key) else text for key, text in self.options}
        return f"FormatSettings({self.name!r}, {shown}, {self.type})"


def _avro(part: str, name: str, options: dict[str, str]) -> dict[str, str]:
    if name != "avro":
        raise BadConfigurationError(
            f"option '{part}.schema' is an Avro schema, but '{part}.format' is {name}: write DDL"
        )
    if "schema" in options:
        raise BadConfigurationError(f"options '{part}.schema' and '{part}.format.schema' are the same: write one")
    return options


def _ddl(part: str, name: str, schema: str, *, reading: bool) -> pa.DataType:
    if not reading:
        raise BadConfigurationError(
            f"option '{part}.schema': the {part} column's type says what is written; for avro an Avro schema as JSON "
            "may be given"
        )
    if name in _RAW:
        raise BadConfigurationError(
            f"option '{part}.schema' has no meaning for '{part}.format' {name}: choose json or avro"
        )
    try:
        return parse_type(schema)
    except ValueError as error:
        raise BadConfigurationError(f"option '{part}.schema': {error}") from None
