"""Options of the format of events' data, for sources and sinks."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.options import Option, OptionValues
from penstock.serialization.formats import FORMAT_OPTIONS

__all__ = ["FormatSettings", "format_options"]


def _is_secret(name: str) -> bool:
    """By the full option name. What the formats do not declare may be another package's secret."""
    short = name.lower().removeprefix("value.format.")
    declared = [options.find(short) for options in FORMAT_OPTIONS.values()]
    return not any(declared) or any(option.secret for option in declared if option is not None)


def format_options(*, reading: bool) -> tuple[Option, ...]:
    """The declarations."""
    if reading:
        what = (
            "How an event's data are decoded: binary (not at all), string, json (to the type that .schema(…) gives the "
            "column value), avro, a format of another package by its entry point's name, or module:function"
        )
    else:
        what = (
            "How the column value is encoded: binary (strings or bytes as they are), json or avro (from a struct), a "
            "format of another package by its entry point's name, or module:function"
        )
    return (
        Option("value.format", what, default="binary"),
        Option(
            "value.format.*",
            "Options of the format, such as value.format.schema.registry.url",
            secret_names=_is_secret,
            credentials=("value.format.basic.auth.user.info",),
        ),
    )


@dataclass(frozen=True, repr=False)
class FormatSettings:
    """A format's name and the options for it, which may hold secrets; the repr hides them."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_values(cls, values: OptionValues) -> FormatSettings:
        """The settings of ``values``."""
        name = values["value.format"].strip()
        name = name.lower() if name.lower() in ("binary", "string", "json", "avro") else name
        return cls(name, tuple(sorted(values.with_prefix("value.format.").items())))

    @property
    def is_raw(self) -> bool:
        """Whether bytes are taken as they are."""
        return self.name == "binary"

    def __repr__(self) -> str:
        shown = {key: "***" if _is_secret(key) else text for key, text in self.options}
        return f"FormatSettings({self.name!r}, {shown})"
