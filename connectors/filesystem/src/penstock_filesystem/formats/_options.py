"""The options of the formats: what decides how the contents of a file are read and written."""

from __future__ import annotations

from codecs import lookup
from dataclasses import dataclass

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues
from penstock.serialization.values import TimeParser, TimeReader, checked_zone
from penstock_filesystem.formats.csv import CsvReadDialect, CsvWriteDialect

__all__ = ["ReadOptions", "WriteOptions"]


@dataclass(frozen=True)
class ReadOptions:
    """How the contents of files are read. ``name`` is the format's, ``mode`` says what happens to a bad row."""

    name: str
    mode: str
    corrupt_column: str
    encoding: str
    line_sep: str | None
    whole_text: bool
    multi_line: bool
    csv: CsvReadDialect
    times: TimeParser
    merge_schema: bool

    @classmethod
    def from_values(cls, values: OptionValues) -> ReadOptions:
        """Takes them from a source's options. Raises BadConfigurationError."""
        return cls(
            name=values["format"],
            mode=values["mode"],
            corrupt_column=values["columnNameOfCorruptRecord"],
            encoding=_encoding(values),
            line_sep=_line_sep(values["lineSep"]),
            whole_text=values["wholetext"],
            multi_line=values["multiLine"],
            csv=CsvReadDialect.from_values(values),
            times=_times(values),
            merge_schema=values["mergeSchema"],
        )


def _encoding(values: OptionValues) -> str:
    name = values["charset"] if values.is_set("charset") else values["encoding"]
    try:
        return lookup(name).name
    except LookupError:
        raise BadConfigurationError(f"option 'encoding': no encoding is named {name!r}") from None


def _line_sep(text: str | None) -> str | None:
    if text == "":
        raise BadConfigurationError("option 'lineSep' must not be empty")
    return text


def _times(values: OptionValues) -> TimeParser:
    def reader(option: str) -> TimeReader | None:
        return TimeReader(option, values[option]) if values[option] else None

    zone = checked_zone("timeZone", values["timeZone"])
    return TimeParser(zone, reader("dateFormat"), reader("timestampFormat"))


@dataclass(frozen=True)
class WriteOptions:
    """How the contents of files are written. ``name`` is the format's; patterns are in the letters of Java."""

    name: str
    compression: str | None
    line_sep: str
    csv: CsvWriteDialect
    timestamp_pattern: str | None
    date_pattern: str | None
    ignore_null_fields: bool
    row_group_rows: int

    @classmethod
    def from_values(cls, values: OptionValues) -> WriteOptions:
        """Takes them from a sink's options."""
        return cls(
            name=values["format"],
            compression=values["compression"],
            line_sep=values["lineSep"],
            csv=CsvWriteDialect.from_values(values),
            timestamp_pattern=values["timestampFormat"],
            date_pattern=values["dateFormat"],
            ignore_null_fields=values["ignoreNullFields"],
            row_group_rows=values["rowGroupSize"],
        )
