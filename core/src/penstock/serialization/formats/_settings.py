"""What a user may say of the format of a record's part, the same in every connector that moves records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionValues, names_object, unless, when
from penstock.serialization.ddl import parse_type, shown_type
from penstock.serialization.formats._contracts import RecordDecoder, RecordEncoder
from penstock.serialization.formats._options import FORMAT_OPTIONS, READ_ONLY
from penstock.serialization.formats._registry import check_options, create_decoder, create_encoder, find_format

__all__ = ["FormatSettings", "format_options"]


def format_options(part: str, *, reading: bool) -> tuple[Option, ...]:
    """Returns the options of ``part``, which is also the name of its column: "value", say."""
    if reading:
        what = (
            f"How the {part} is decoded: binary (not at all), string, json, avro, protobuf, debezium (envelopes of "
            "changes), a format of another package by its entry point's name, or module:function"
        )
        schema = (
            f"What the {part} is decoded as: a schema in DDL such as 'id long, at timestamp', or for avro an Avro "
            "schema as JSON, or for json a JSON schema, or for debezium the columns of the table; an alternative to "
            ".schema(…)"
        )
    else:
        what = (
            f"How the {part} column is encoded: binary (a column of strings or bytes as it is), json, avro or "
            "protobuf (from a struct), a format of another package by its entry point's name, or module:function"
        )
        schema = (
            f"The Avro schema, or the JSON schema, to write the {part} with, as JSON; unset, derived from the column"
        )
    name = f"{part}.format"
    given = unless(name, "binary", "string") if reading else when(name, "avro", "json")
    return (
        Option(name, what, default="binary", check=None if reading else _check_written),
        Option(f"{part}.schema", schema, needs=(given,)),
        Option(
            f"{part}.format.*",
            f"Options of the {part}'s format, such as {part}.format.schema.registry.url",
            secret_names=_is_secret,
            names_file=_names_file,
            credentials=(f"{part}.format.basic.auth.user.info",),
            needs=(unless(name, "binary"),),
        ),
    )


def _check_written(name: str) -> None:
    if name.strip().lower() in READ_ONLY:
        raise ValueError("a format to write, only to read: write json, avro or protobuf")


def _is_secret(name: str) -> bool:
    """By the full name of an option. What the built-in formats do not declare may be another package's secret."""
    declared = _declared(name)
    return not declared or any(option.secret for option in declared)


def _names_file(name: str, text: str) -> bool:
    return bool(text) and any(option.kind == "file" for option in _declared(name))


def _declared(name: str) -> list[Option]:
    """Returns what the built-in formats declare under the full, or the short, name of an option."""
    short = name.lower().partition(".format.")[2] or name.lower()
    return [option for options in FORMAT_OPTIONS.values() if (option := options.find(short)) is not None]


_QUOTED = re.compile(r"'([\w.]+)'")


@dataclass(frozen=True, repr=False)
class FormatSettings:
    """The format of ``part``, the options for it, and the type to decode to where the user named one.

    ``options`` may hold secrets, which the repr hides.
    """

    part: str
    name: str = "binary"
    options: tuple[tuple[str, str], ...] = ()
    type: pa.DataType | None = None

    @classmethod
    def from_values(cls, values: OptionValues, part: str, *, reading: bool) -> FormatSettings:
        """Returns the settings of ``part``. Raises BadConfigurationError for what does not go together."""
        name = values[f"{part}.format"].strip()
        name = name.lower() if name.lower() in FORMAT_OPTIONS else name
        options = {key.lower(): text for key, text in values.with_prefix(f"{part}.format.").items()}
        type_ = None
        if schema := values[f"{part}.schema"]:
            if schema.lstrip()[:1] in ("{", "[", '"'):
                options = {**_without_schema(part, name, options, schema), "schema": schema}
            else:
                type_ = _ddl(part, schema, reading=reading)
        return cls(part, name, tuple(sorted(options.items())), type_)

    @property
    def is_raw(self) -> bool:
        """Whether bytes are taken as they are."""
        return self.name == "binary"

    def is_at_hand(self) -> bool:
        """Returns whether an encoder can be made of these settings alone, without a schema registry and code of the
        user's. Raises BadConfigurationError for a format that is not installed, and for options that it does not take.
        """
        if names_object(self.name):
            return False
        if not self.is_raw:
            with self._errors_name_the_part():
                # Whichever topic: where rows name theirs, the options are the same for each.
                check_options(self.name, self._with_subject("topic"), "writing")
        return not any("registry" in name for name, _ in self.options)

    def create_decoder(self, wanted: pa.DataType | None, *, topic: str | None = None) -> RecordDecoder | None:
        """Returns the decoder; ``None`` for bytes as they are. Driver. Raises as the function of that name does.

        ``wanted`` is the type that the user wants the column to be, ``topic`` what a schema registry may name the
        subject by.
        """
        if self.is_raw:
            return None
        with self._errors_name_the_part():
            declared = None if self.type is None else find_format(self.name).column_type(self.type)
        if wanted is not None and declared is not None and _plain(wanted) != _plain(declared):
            raise BadConfigurationError(
                f"option '{self.part}.schema' is {shown_type(self.type, wanted)}, and .schema(…) says "
                f"{shown_type(wanted, self.type)}: leave one of them out"
            )
        with self._errors_name_the_part():
            return create_decoder(self.name, self._with_subject(topic), wanted or declared)

    def create_encoder(self, schema: pa.Schema, *, topic: str | None = None) -> RecordEncoder | None:
        """Returns the encoder for the column of ``schema`` that is named as the part, in any case; ``None`` for bytes
        and strings as they are. Driver. Raises as the function of that name does, and BadConfigurationError if there is
        no such column.
        """
        if self.is_raw:
            return None
        columns = {field.name.lower(): field for field in schema}
        if self.part not in columns:
            raise BadConfigurationError(
                f"option '{self.part}.format' is {self.name}, but there is no column '{self.part}': select one, such "
                f"as struct(*) AS {self.part}"
            )
        with self._errors_name_the_part():
            return create_encoder(self.name, self._with_subject(topic), columns[self.part].type)

    @contextmanager
    def _errors_name_the_part(self) -> Iterator[None]:
        """A format knows its options by their short names; a user has written them in full."""
        try:
            yield
        except BadConfigurationError as error:
            known = {option.name.lower() for declared in FORMAT_OPTIONS.values() for option in declared}
            known = (known | dict(self.options).keys()) - {"part", "topic"}  # those are the connector's
            text = _QUOTED.sub(lambda m: self._in_full(m[1]) if m[1].lower() in known else m[0], str(error))
            where = "" if f"'{self.part}." in text else f"option '{self.part}.format': "
            raise BadConfigurationError(where + text) from error.__cause__

    def _in_full(self, name: str) -> str:
        return f"'{self.part}.schema'" if name.lower() == "schema" else f"'{self.part}.format.{name}'"

    def _with_subject(self, topic: str | None) -> dict[str, str]:
        """Formats that do not know the options of a subject's name do without."""
        known = {"part": self.part, **({"topic": topic} if topic else {})}
        declared = find_format(self.name).options
        own = {name: text for name, text in known.items() if declared.find(name) is not None}
        return {**own, **dict(self.options)}

    def __repr__(self) -> str:
        shown = {key: "***" if _is_secret(key) else text for key, text in self.options}
        return f"FormatSettings({self.part!r}, {self.name!r}, {shown}, {self.type})"


def _plain(type_: pa.DataType) -> str:
    """Returns the type without what it says of nulls: Spark's columns may say more of them than a schema in DDL."""
    return str(type_).replace(" not null", "")


def _without_schema(part: str, name: str, options: dict[str, str], schema: str) -> dict[str, str]:
    if name != "avro" and not (name == "json" and schema.lstrip().startswith("{")):
        raise BadConfigurationError(
            f"option '{part}.schema' is an Avro schema, but '{part}.format' is {name}: write DDL"
        )
    if "schema" in options:
        raise BadConfigurationError(f"options '{part}.schema' and '{part}.format.schema' are the same: write one")
    return options


def _ddl(part: str, schema: str, *, reading: bool) -> pa.DataType:
    if not reading:
        raise BadConfigurationError(
            f"option '{part}.schema': the {part} column's type says what is written; for avro and json a schema "
            "as JSON may be given"
        )
    try:
        return parse_type(schema)
    except ValueError as error:
        raise BadConfigurationError(f"option '{part}.schema': {error}") from None
